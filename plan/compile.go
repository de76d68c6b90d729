package plan

import (
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/plan/rule"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// compiler is the state of one Compile.
type compiler struct {
	opt Options
	dir string // of the plan
	*block.Plan
	used map[string]bool // "var.x", "local.x", "profile.x", "artifact.x"

	agents  map[string]agent
	objects *rule.Objects

	// What is the same for many nodes, or many times for one.
	shapes map[string]*shape
	orders map[string][]int // of steps, see orderOf
	shared map[sharedSteps][]*block.Step

	// Room that each node uses again.
	index     map[string]int
	extra     int // the most steps that step blocks gave one
	unordered []steps.Spec
	orderKey  []byte
}

type agent struct {
	source steps.Source
	err    error
}

func newCompiler(p *Plan) *compiler {
	d := &block.Plan{Scope: eval.NewScope(p.files, p.opt.Env), Written: p.blocks, Lost: p.lost}
	return &compiler{Plan: d, opt: p.opt, dir: p.files.Dir, used: map[string]bool{},
		agents: map[string]agent{}, objects: rule.NewObjects(), shapes: map[string]*shape{}, orders: map[string][]int{},
		shared: map[sharedSteps][]*block.Step{}, index: map[string]int{}}
}

// run goes through the blocks in the order in which they can depend on each other.
func (c *compiler) run(alone bool) *Compiled {
	block.Decode(c.Plan, eval.Inputs{Vars: c.opt.Vars, Files: c.opt.VarFiles, Alone: alone})
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
	out := &Compiled{Dir: c.Files.Dir, Nodes: make([]block.Node, 0, len(c.Machines))}
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
	if !c.List.HasErrors() { // else what seems unused may be misspelt elsewhere
		c.idle(stepBlocks)
		rule.Unused(c.Plan)
		c.unusedArtifacts()
	}
	out.Rollout = c.rollout(len(out.Nodes))
	slices.SortFunc(out.Nodes, func(a, b block.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Values of self that only the machine knows.
var (
	laterIP       = eval.LaterString("fact.management_ip")
	laterHostname = eval.LaterString("fact.hostname")
	laterBuild    = eval.LaterString("fact.build")
	laterDataDir  = eval.LaterString("fact.data_dir")
)

// self is the object that step blocks see of their node.
func (c *compiler) self(m *block.Machine, specs []steps.Spec) cty.Value {
	ip := laterIP
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
	// The gate on the Node's registration gives its pod CIDR.
	for _, s := range specs {
		if slices.Contains(kinds.Of(s).Outputs, kinds.PodCIDR) && c.Cluster != nil && c.Cluster.Base.Network.Kind != "none" {
			self["pod_cidr"] = eval.LaterString(s.ID + "." + kinds.PodCIDR)
		}
	}
	if c.Cluster != nil && len(specs) == 0 {
		self["pod_cidr"] = cty.DynamicVal // why there is no recipe was reported
	}
	return cty.ObjectVal(self)
}
