package plan

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/plan/graph"
	"nodejoin/plan/recipe"
	"nodejoin/plan/rule"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// expansion turns one node into ordered steps: first those of its recipe, then those of step
// blocks.
type expansion struct {
	c       *compiler
	m       *block.Machine
	specs   []steps.Spec
	shape   *shape
	recipe  int                    // how many of specs are the recipe's
	added   map[string]int         // the steps of step blocks by id
	origins map[string]*block.Step // of the steps of step blocks
	groups  map[string][]string    // name of a block with for_each -> its steps
	skipped map[string]bool        // names of blocks that gave nothing, or not all
}

// expand makes the ordered steps of a machine.
func (c *compiler) expand(m *block.Machine, blocks []*block.StepBlock) {
	before := c.Errors()
	specs, shape := c.recipe(m)
	x := &expansion{c: c, m: m, specs: specs, shape: shape, recipe: len(specs),
		added: c.added, origins: map[string]*block.Step{},
		groups: map[string][]string{}, skipped: map[string]bool{}}
	clear(x.added)
	x.addBlocks(blocks)
	x.link()
	order := x.order()
	rule.ApplyExpanded(c.Plan, &rule.Expanded{Machine: m, Given: x.specs[x.recipe:], Origins: x.origins,
		Made: x.shape.made, Ports: x.shape.ports, Objects: c.objects})
	if c.Errors() > before {
		return
	}
	x.tellOthers()
	m.Steps = slices.Grow(m.Steps, len(order))
	for _, j := range order {
		m.Steps = append(m.Steps, x.specs[j])
	}
	c.unordered = x.specs
}

// tellOthers tells each step that gives the Node labels or taints which the others give it, so that it does not
// remove them as those of an earlier plan.
func (x *expansion) tellOthers() {
	labels, taints := map[int]*kinds.NodeLabels{}, map[int]*kinds.NodeTaints{}
	for i, s := range slices.Backward(x.specs) {
		if i < x.recipe && len(labels)+len(taints) == 0 {
			return // no step block gives it any
		}
		if l, ok := kinds.As[kinds.NodeLabels](s); ok {
			labels[i] = l
		} else if t, ok := kinds.As[kinds.NodeTaints](s); ok {
			taints[i] = t
		}
	}
	for i, l := range labels {
		for j, other := range labels {
			if i != j {
				l.Others = merged(l.Others, other.Labels)
				x.specs[i].Args = steps.MustArgs(l)
			}
		}
	}
	for _, i := range slices.Sorted(maps.Keys(taints)) {
		for _, j := range slices.Sorted(maps.Keys(taints)) {
			if i != j {
				taints[i].Others = append(taints[i].Others, taints[j].Taints...)
				x.specs[i].Args = steps.MustArgs(taints[i])
			}
		}
	}
}

func merged(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// place is where a step is among specs.
func (x *expansion) place(id string) (i int, ok bool) {
	if i, ok = x.added[id]; !ok {
		i, ok = x.shape.index[id]
	}
	return i, ok
}

// addBlocks evaluates the step blocks of the node.
func (x *expansion) addBlocks(blocks []*block.StepBlock) {
	self := x.self()
	for _, b := range blocks {
		if !b.RunsOn(x.m) {
			continue
		}
		b.Evaluated = true
		list, ok := x.c.stepsOf(b, x.m, self)
		x.skipped[b.Name] = !ok || len(list) == 0
		for _, args := range list {
			id := args.Out.ID
			if i, again := x.place(id); again {
				what := "Another step block"
				if i < x.recipe {
					what = "The recipe"
				}
				x.c.FailOn(x.m.Name, b.Block.LabelRanges[1], "duplicate name", "%s of node %q has a step %q already. Names of "+
					"steps are unique on a node, so that they can be referred to; choose another.", what, x.m.Name, id)
				continue
			}
			x.added[id] = len(x.specs)
			x.origins[id] = args
			x.specs = append(x.specs, args.Out)
			if id != b.Name {
				x.groups[b.Name] = append(x.groups[b.Name], id)
			}
		}
	}
}

// link resolves after, before and the references in arguments.
func (x *expansion) link() {
	for i := x.recipe; i < len(x.specs); i++ {
		o := x.origins[x.specs[i].ID]
		for n, name := range o.After {
			for _, j := range x.named(o, "after", n, name) {
				x.need(i, j)
			}
		}
		for n, name := range o.Before {
			for _, j := range x.named(o, "before", n, name) {
				x.need(j, i)
			}
		}
		if !o.Refers {
			continue
		}
		for _, ref := range steps.ArgRefs(x.specs[i].Args) {
			id, _, _ := strings.Cut(ref, ".")
			if j, ok := x.place(id); ok && j != i {
				x.need(i, j)
			}
		}
	}
	x.joinedLast()
}

// joinedLast puts the step that lets pods onto the Node after all steps that do not ask to come
// after it.
func (x *expansion) joinedLast() {
	joined, ok := x.place(recipe.JoinedStep)
	if !ok || joined >= x.recipe {
		return
	}
	later := map[string]bool{recipe.JoinedStep: true}
	for more := true; more; {
		more = false
		for _, s := range x.specs[x.recipe:] {
			if !later[s.ID] && slices.ContainsFunc(s.After, func(id string) bool { return later[id] }) {
				later[s.ID], more = true, true
			}
		}
	}
	for i := x.recipe; i < len(x.specs); i++ {
		if !later[x.specs[i].ID] {
			x.need(joined, i)
		}
	}
}

// need makes step i come after step j.
func (x *expansion) need(i, j int) {
	s, id := &x.specs[i], x.specs[j].ID
	if slices.Contains(s.After, id) {
		return
	}
	s.After = append(slices.Clone(s.After), id) // those of recipes may be shared
	slices.Sort(s.After)
}

// named finds the steps that element n of the argument "after" or "before" means.
func (x *expansion) named(o *block.Step, argument string, n int, name string) []int {
	at := o.AtIndex(argument, n)
	ids := x.groups[name]
	if _, ok := x.place(name); ok {
		ids = []string{name}
	}
	var out []int
	for _, id := range ids {
		if id == o.Out.ID {
			x.c.Fail(at, "step waits for itself", "The step %q cannot come %s itself. Remove it from the argument %q.", name,
				argument, argument)
			continue
		}
		place, _ := x.place(id)
		out = append(out, place)
	}
	if len(ids) > 0 || x.skipped[name] {
		return out
	}
	if x.recipe == 0 && x.c.Cluster != nil {
		return nil // it may be the recipe's, and why there is none was reported
	}
	var known []string
	for _, s := range x.specs {
		known = append(known, s.ID)
	}
	hint := eval.DidYouMean(name, known)
	if hint == "" {
		hint = " nodejoin graph shows those that there are."
	}
	x.c.FailOn(x.m.Name, at, "unknown step", "There is no step %q on node %q.%s", name, x.m.Name, hint)
	return nil
}

// order lists the indexes of the steps so that each comes after what it needs; a cycle is
// reported.
func (x *expansion) order() []int {
	order, err := x.c.orderOf(x.specs)
	if err == nil {
		return order
	}
	var dangling *danglingError
	if errors.As(err, &dangling) {
		x.c.FailOn(x.m.Name, x.m.Range, "invalid recipe",
			"The step %q of node %q comes after %q, which the node does not have.", dangling.step, x.m.Name, dangling.after)
		return nil
	}
	at := x.m.Range
	var cycle *graph.CycleError[string]
	if !errors.As(err, &cycle) {
		x.c.FailOn(x.m.Name, at, "invalid recipe", "The steps of node %q have no order: %s.", x.m.Name, err)
		return nil
	}
	for _, id := range cycle.Path {
		if o := x.origins[id]; o != nil {
			at = o.At("after")
			if !o.Has("after") {
				at = o.At("before")
			}
			break
		}
	}
	x.c.FailOn(x.m.Name, at, "steps in a circle",
		"On node %q each of these steps waits for the one before it, so none can start: %s. Remove one of the links.",
		x.m.Name, strings.Join(cycle.Path, " -> "))
	return nil
}

// idle warns of nodes without anything to do.
func (c *compiler) idle(blocks []*block.StepBlock) {
	if len(c.Written["node"])+len(c.Machines) == 0 {
		c.Warn(hcl.Range{}, "no nodes",
			"The plan has no node block, so there is nothing to do. Add: node \"NAME\" { os = \"windows\" ... }.")
	}
	if c.Cluster != nil {
		return
	}
	for _, m := range c.Machines {
		if !m.Bad && len(m.Steps) == 0 && !slices.ContainsFunc(blocks,
			func(b *block.StepBlock) bool { return b.RunsOn(m) }) {
			c.WarnOn(m.Name, m.Range, "nothing to do",
				"Node %q joins no cluster and has no step. Add a cluster block, or a step block for it.", m.Name)
		}
	}
}

// Values of self that only the machine knows.
var (
	laterIP       = eval.LaterString("fact.management_ip")
	laterHostname = eval.LaterString("fact.hostname")
	laterBuild    = eval.LaterString("fact.build")
	laterDataDir  = eval.LaterString("fact.data_dir")
)

// self is the object that step blocks see of their node.
func (x *expansion) self() cty.Value {
	m, ip := x.m, laterIP
	if m.IP != "" {
		ip = cty.StringVal(m.IP)
	}
	self := map[string]cty.Value{
		"name": cty.StringVal(m.Name), "os": cty.StringVal(m.OS), "arch": cty.StringVal(m.Arch),
		"management_ip": ip, "hostname": laterHostname, "build": laterBuild,
		"data_dir": laterDataDir, "vars": m.Vars,
	}
	if name := m.RecipeSettings.HostName(); name != "" {
		self["hostname"] = cty.StringVal(name)
	}
	if m.DataDir != "" {
		self["data_dir"] = cty.StringVal(m.DataDir)
	}
	switch {
	case x.shape.podCIDR != cty.NilVal:
		self["pod_cidr"] = x.shape.podCIDR
	case x.c.Cluster != nil && x.recipe == 0:
		self["pod_cidr"] = cty.DynamicVal // why there is no recipe was reported
	}
	return cty.ObjectVal(self)
}
