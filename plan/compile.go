package plan

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/plan/rule"
	"nodejoin/steps"
)

// run goes through the blocks in the order in which they can depend on each other.
func (c *compiler) run(alone bool) *Compiled {
	block.Decode(c.Plan, eval.Inputs{Vars: c.opt.Vars, Files: c.opt.VarFiles, Alone: alone,
		Unvalued: c.opt.Unvalued, Environment: c.opt.Environment})
	if c.Cluster != nil {
		c.Cluster.Base.Plan = steps.PlanName(c.opt.Environment, c.Cluster.Name)
	}
	rule.Apply(c.Plan)
	for _, m := range c.Machines {
		m.Bad = !m.OK || m.OS == ""
		if !m.Bad {
			c.machineSettings(m)
		}
		if box := m.Connection.Sandbox; box != nil && c.Cluster != nil {
			box.ClusterDir = c.Cluster.Sandbox
		}
	}
	c.manifestsBlock()
	for _, m := range c.Machines {
		m.Forget()
	}
	stepBlocks := c.Steps
	out := &Compiled{Dir: c.Files.Dir, Environment: c.opt.Environment,
		Unvalued: c.Unvalued, Outputs: c.Outputs, Data: c.Data, Unread: c.Unread, Modules: c.Modules,
		Nodes: make([]block.Node, 0, len(c.Machines))}
	if c.Cluster != nil {
		out.Cluster = &c.Cluster.Cluster
		out.Manifests = c.Cluster.Manifests
	}
	for _, m := range c.Machines {
		m.Labels, m.Taints = m.GivenLabels, m.GivenTaints
		if m.OS == "windows" {
			m.Build = m.KnownBuild()
		}
		if !m.Bad {
			c.expand(m, stepBlocks)
		}
		out.Nodes = append(out.Nodes, m.Node)
	}
	for _, b := range stepBlocks {
		if !b.Evaluated {
			c.judge(b)
		}
	}
	c.findImages(out)
	c.judgeLock()
	c.contained(out)
	// With errors or unknown values, what seems unused may be used by something that was not read.
	if !c.List.HasErrors() && len(c.Unvalued)+len(c.Unread) == 0 {
		c.idle(stepBlocks)
		rule.Unused(c.Plan)
		c.unusedArtifacts()
	}
	out.Logins = c.logins()
	out.Artifacts, out.Lock, out.LockFile, out.verify = c.artifacts(), c.lock, c.lockFile, c.Verify
	out.root, out.Images = c.trustRoot(), c.images
	out.Rollout, out.Moved = c.rollout(len(out.Nodes)), c.moved()
	slices.SortFunc(out.Data, func(a, b block.Data) int { return strings.Compare(a.Address, b.Address) })
	slices.SortFunc(out.Nodes, func(a, b block.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Compile evaluates the plan and expands every node into its ordered steps. The
// result is nil when there are errors. After a Load with errors it does nothing.
// It may be called more than once, each time reading again what the plan reads.
func (p *Plan) Compile() (*Compiled, hcl.Diagnostics) {
	if p.broken {
		return nil, nil
	}
	limits := p.opt.Limits
	if limits == (Limits{}) {
		limits = DefaultLimits
	}
	c := newCompiler(p)
	return limits.within(&c.At, c.Waited, func() (*Compiled, hcl.Diagnostics) {
		c.Extend(p.early.List)
		out := c.run(p.alone)
		out.texts = p.texts
		list := c.Sorted()
		if list.HasErrors() {
			return nil, list
		}
		return out, list
	})
}
