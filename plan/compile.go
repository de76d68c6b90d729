package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/graph"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
)

// compiler is the state of one Compile.
type compiler struct {
	plan  *Plan
	opt   Options
	diags *diags
	ctx   *hcl.EvalContext // var, local and the functions
	used  map[string]bool  // "var.x", "local.x", "profile.x", "artifact.x"

	profiles  map[string]*profile
	cluster   *cluster
	artifacts map[string]*artifact
	mirror    string // absolute; "" = none
	machines  []*machine
	agents    map[string]agent
}

type agent struct {
	source steps.Source
	err    error
}

func newCompiler(p *Plan) *compiler {
	c := &compiler{plan: p, opt: p.opt, diags: newDiags(), used: map[string]bool{}, agents: map[string]agent{}}
	c.ctx = &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: c.functions()}
	return c
}

// run goes through the blocks in the order in which they can depend on each other.
func (c *compiler) run() *Compiled {
	c.section1()
	refs := c.references()
	c.variables(refs)
	c.locals(refs)
	c.clusterBlocks()
	c.profileBlocks()
	c.nodeBlocks()
	stepBlocks := c.stepBlocks()
	out := &Compiled{Dir: c.plan.dir}
	if c.cluster != nil {
		out.Cluster = &c.cluster.Cluster
	}
	for _, m := range c.machines {
		c.expand(m, stepBlocks)
		out.Nodes = append(out.Nodes, m.Node)
	}
	c.unused()
	slices.SortFunc(out.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// section1 decodes the nodejoin block, whose one argument Load has judged.
func (c *compiler) section1() {
	for _, b := range c.plan.blocks["nodejoin"] {
		c.section(rootBlock("nodejoin"), b, c.ctx)
	}
}

// reference is a place where something is named: var.x.
type reference struct {
	root, name string
	at         hcl.Range
}

// references finds every var.x and local.x that is written anywhere.
func (c *compiler) references() []reference {
	var out []reference
	for _, name := range sortedKeys(c.plan.parser.Files()) {
		body, ok := c.plan.parser.Files()[name].Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics {
			e, ok := n.(*hclsyntax.ScopeTraversalExpr)
			if !ok || len(e.Traversal) < 2 {
				return nil
			}
			if a, ok := e.Traversal[1].(hcl.TraverseAttr); ok {
				if root := e.Traversal.RootName(); root == "var" || root == "local" {
					out = append(out, reference{root, a.Name, e.Range()})
				}
			}
			return nil
		})
	}
	return out
}

// unused warns of what is given and named nowhere.
func (c *compiler) unused() {
	for _, b := range c.plan.blocks["variable"] {
		if !c.used["var."+b.Labels[0]] {
			c.diags.warn(b.DefRange, "unused variable", "Nothing refers to var.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, b := range c.plan.blocks["profile"] {
		if !c.used["profile."+b.Labels[0]] {
			c.diags.warn(b.DefRange, "unused profile", "No node has profile.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, b := range c.plan.blocks["artifact"] {
		if a := c.artifacts[b.Labels[0]]; a != nil && c.cluster != nil && len(c.machines) > 0 && !c.used["artifact."+b.Labels[0]] {
			c.diags.warn(b.DefRange, "unused artifact", "No node of the plan needs the artifact %q. Remove it.", b.Labels[0])
		}
	}
}

// expand makes the ordered steps of one node.
func (c *compiler) expand(m *machine, blocks []*stepBlock) {
	if m.bad {
		return
	}
	before := c.errors()
	specs := c.recipe(m)
	fromRecipe := len(specs)
	self := c.self(m, specs)
	type origin struct {
		block *stepBlock
		args  *stepArgs
	}
	origins := map[string]origin{}
	skipped := map[string]bool{}
	index := map[string]int{}
	groups := map[string][]string{} // name of a block with for_each -> its steps
	for i, s := range specs {
		index[s.ID] = i
	}
	for _, b := range blocks {
		if !b.runsOn(m) {
			continue
		}
		list, ok := c.stepArgs(b, m, self)
		if len(list) == 0 {
			skipped[b.name] = true // left out, empty, or reported
			continue
		}
		if !ok {
			skipped[b.name] = true
		}
		for _, args := range list {
			id := args.spec.ID
			if i, again := index[id]; again {
				what := "Another step block"
				if i < fromRecipe {
					what = "The recipe"
				}
				c.diags.fail(b.block.LabelRanges[1], "duplicate name", "%s of %s has a step %q already. Names of steps are unique on a node, so that they can be referred to; choose another.", what, m.Name, id)
				continue
			}
			index[id] = len(specs)
			origins[id] = origin{b, args}
			specs = append(specs, args.spec)
			if id != b.name {
				groups[b.name] = append(groups[b.name], id)
			}
		}
	}

	var g graph.Graph[string]
	for _, s := range specs {
		g.Add(s.ID)
	}
	ids := func() (out []string) {
		for _, s := range specs {
			out = append(out, s.ID)
		}
		return out
	}
	link := func(name string, at hcl.Range, then func(i int)) {
		if i, ok := index[name]; ok {
			then(i)
		} else if group := groups[name]; group != nil {
			for _, id := range group {
				then(index[id])
			}
		} else if !skipped[name] {
			c.diags.fail(at, "unknown step", "%s is on no step of node %q.", unknownStep(name, ids()), m.Name)
		}
	}
	for i := fromRecipe; i < len(specs); i++ {
		o := origins[specs[i].ID]
		for _, name := range o.args.after {
			link(name, o.args.at("after"), func(j int) { specs[i].After = appendNew(specs[i].After, specs[j].ID) })
		}
		for _, name := range o.args.before {
			link(name, o.args.at("before"), func(j int) { specs[j].After = appendNew(slices.Clone(specs[j].After), specs[i].ID) })
		}
		for _, ref := range steps.ArgRefs(specs[i].Args) {
			id, _, _ := strings.Cut(ref, ".")
			if _, ok := index[id]; ok && id != specs[i].ID {
				specs[i].After = appendNew(specs[i].After, id)
			}
		}
	}
	for i := range specs {
		slices.Sort(specs[i].After)
		for _, a := range specs[i].After {
			if err := g.Edge(a, specs[i].ID); err != nil {
				c.diags.fail(m.at, "invalid recipe", "The step %q of node %s comes after %q, which it does not have.", specs[i].ID, m.Name, a)
			}
		}
	}
	order, err := g.Order()
	var cycle *graph.CycleError[string]
	if errors.As(err, &cycle) {
		at := m.at
		for _, id := range cycle.Path {
			if o, ok := origins[id]; ok {
				at = o.args.at("after")
				if !o.args.has("after") {
					at = o.args.at("before")
				}
				break
			}
		}
		c.diags.fail(at, "steps in a circle", "On node %q each of these steps waits for the one before it, so none can start: %s. Remove one of the links.", m.Name, strings.Join(cycle.Path, " -> "))
		return
	}
	c.conflicts(m, specs[fromRecipe:], specs[:fromRecipe], func(id string) hcl.Range { return origins[id].block.block.DefRange })
	if c.errors() > before {
		return
	}
	for _, id := range order {
		m.Steps = append(m.Steps, specs[index[id]])
	}
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func unknownStep(name string, known []string) string {
	s := fmt.Sprintf("The step %q", name)
	if m := didYouMean(name, known); m != "" {
		return strings.TrimSpace(m) + " " + s
	}
	return s
}

// recipe gives the steps that make the machine a node of the cluster.
func (c *compiler) recipe(m *machine) []steps.Spec {
	if c.cluster == nil || !c.cluster.complete {
		return nil
	}
	in := c.cluster.input(m)
	sources, ok := c.sources(m, recipe.Artifacts(in))
	if !ok {
		return nil
	}
	in.Artifacts = sources
	specs, err := recipe.Expand(in)
	if err != nil {
		at := m.at
		var unsupported *recipe.UnsupportedError
		if errors.As(err, &unsupported) {
			if b := c.plan.blocks[unsupported.What]; len(b) == 1 {
				at = b[0].DefRange
			}
		}
		c.diags.fail(at, "no recipe for the node", "Node %q cannot be joined as the plan asks: %s.", m.Name, err)
		return nil
	}
	return specs
}

// self is the object that step blocks see of their node.
func (c *compiler) self(m *machine, specs []steps.Spec) cty.Value {
	ip := laterString("fact.management_ip")
	if m.managementIP != "" {
		ip = cty.StringVal(m.managementIP)
	}
	self := map[string]cty.Value{
		"name": cty.StringVal(m.Name), "os": cty.StringVal(m.OS), "arch": cty.StringVal(m.Arch),
		"management_ip": ip, "hostname": laterString("fact.hostname"), "build": laterString("fact.build"),
		"data_dir": laterString("fact.data_dir"), "vars": m.vars,
	}
	if m.DataDir != "" {
		self["data_dir"] = cty.StringVal(m.DataDir)
	}
	// The gate on the Node's registration gives its pod CIDR.
	for _, s := range specs {
		if s.Kind == "node_registered" {
			self["pod_cidr"] = laterString(s.ID + ".pod_cidr")
		}
	}
	if c.cluster != nil && len(specs) == 0 {
		self["pod_cidr"] = cty.DynamicVal // why there is no recipe was reported
	}
	return cty.ObjectVal(self)
}
