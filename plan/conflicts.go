package plan

// conflicts reports steps of the plan that make what another step makes. A recipe
// does not contradict itself.
func (x *expansion) conflicts() {
	own := map[string]string{}
	for _, s := range x.specs[x.recipe:] {
		o := x.origins[s.ID]
		key := o.Makes.Same(x.m.OS)
		if key == "" {
			continue
		}
		before, again := own[key]
		if !again {
			before, again = x.shape.things[key]
		}
		if again {
			x.c.FailOn(x.m.Name, o.Block.DefRange, "two steps for one thing",
				"The steps %q and %q both make %s on node %q, so each would undo the other. Remove one of them.", before, s.ID,
				o.Makes.Words, x.m.Name)
			continue
		}
		own[key] = s.ID
	}
}
