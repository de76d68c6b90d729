package plan

import (
	"errors"
	"slices"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/plan/graph"
	"nodejoin/plan/recipe"
	"nodejoin/plan/rule"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// recipe returns the steps that make the machine a node of the cluster, until the next call, and their shape; none,
// reported, if it cannot be one.
func (c *compiler) recipe(m *block.Machine) ([]steps.Spec, *shape) {
	if c.Cluster == nil {
		s := &shape{made: rule.Made{}}
		specs := recipe.SettingSteps(recipe.Input{Node: m.Name, OS: m.OS, ManagementIP: m.IP, Settings: m.RecipeSettings,
			Source: m.Source})
		for _, spec := range specs {
			s.made.Add(c.Plan, m, spec)
		}
		s.index = indexOf(specs)
		return specs, s
	}
	if !c.Cluster.Whole() {
		return nil, &shape{}
	}
	in := recipeInput(c.Cluster, m)
	if c.Cluster.JoinFile != nil && !c.nodeKubeconfig(m, &in.Join) {
		return nil, &shape{}
	}
	in.Bundled = c.bundled(m)
	text, err := recipe.ShapeKey(in)
	key := shapeKey{m.Connection.Type, text}
	s := c.shapes[key]
	if err == nil && s == nil {
		err = recipe.Check(in)
	}
	if err == nil && s == nil {
		sources, ok := c.sources(m, recipe.Artifacts(in))
		if !ok {
			return nil, &shape{}
		}
		in.Artifacts = sources
		if s, err = c.newShape(m, in); err == nil {
			c.shapes[key] = s
		}
	}
	var specs []steps.Spec
	if err == nil {
		specs, err = s.Expand(c.unordered[:0], recipe.Own{Node: m.Name, Address: m.IP, Address6: m.IP6})
	}
	if err != nil {
		c.noRecipe(m, err)
		return nil, &shape{}
	}
	return specs, s
}

// noRecipe reports why there is none.
func (c *compiler) noRecipe(m *block.Machine, err error) {
	at := m.Range
	why := err.Error()
	var unsupported *recipe.UnsupportedError
	if errors.As(err, &unsupported) {
		why = unsupported.Why
		if b := c.Written[unsupported.What]; len(b) == 1 {
			at = b[0].DefRange
		}
	}
	c.FailOn(m.Name, at, "no recipe for the node", "Node %q cannot join the cluster as the plan asks: %s.", m.Name, why)
}

func (c *compiler) newShape(m *block.Machine, in recipe.Input) (*shape, error) {
	r, err := recipe.NewShape(in)
	if err != nil {
		return nil, err
	}
	specs := r.Steps()
	s := &shape{Shape: r, made: rule.Made{}, ports: recipe.Ports(in), index: indexOf(specs)}
	for i := range specs {
		s.made.Add(c.Plan, m, specs[i])
		if c.Cluster.Base.Network.Kind != "none" && slices.Contains(kinds.Of(specs[i]).Outputs, kinds.PodCIDR) {
			s.podCIDR = eval.LaterString(specs[i].ID + "." + kinds.PodCIDR)
		}
		// The source of a step that installs an artifact is the artifact's block: that is where
		// to fix a digest.
		src, ok := kinds.Installs(specs[i])
		if !ok {
			continue
		}
		for name, have := range in.Artifacts {
			if have == src && name != recipe.AgentArtifact && name != recipe.SelfArtifact {
				specs[i].Source = c.Files.Place(c.artifact(m, name).Range)
			}
		}
	}
	return s, nil
}

// indexOf has the places of steps by their ids.
func indexOf(specs []steps.Spec) map[string]int {
	out := make(map[string]int, len(specs))
	for i, s := range specs {
		out[s.ID] = i
	}
	return out
}

// orderOf is the order of steps, by their place in specs. Nodes of one block mostly
// have the same steps with the same links, so that it is found once for all.
func (c *compiler) orderOf(specs []steps.Spec) ([]int, error) {
	key := c.orderKey[:0]
	for _, s := range specs {
		key = append(key, s.ID...)
		for _, a := range s.After {
			key = append(append(key, ' '), a...)
		}
		key = append(key, '\n')
	}
	c.orderKey = key
	if order, ok := c.orders[string(key)]; ok {
		return order, nil
	}
	var g graph.Graph[string]
	index := indexOf(specs)
	for _, s := range specs {
		g.Add(s.ID)
	}
	for _, s := range specs {
		for _, a := range s.After {
			if err := g.Edge(a, s.ID); err != nil {
				return nil, &danglingError{step: s.ID, after: a}
			}
		}
	}
	ids, err := g.Order()
	if err != nil {
		return nil, err
	}
	order := make([]int, len(ids))
	for i, id := range ids {
		order[i] = index[id]
	}
	c.orders[string(key)] = order
	return order, nil
}

// danglingError is a step that comes after one that does not exist.
type danglingError struct{ step, after string }

func (e *danglingError) Error() string {
	return e.step + " comes after " + e.after + ", which is not there"
}
