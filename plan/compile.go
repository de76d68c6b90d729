package plan

import (
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// compiler is the state of one Compile.
type compiler struct {
	opt Options
	dir string // of the plan
	*decoded
	used map[string]bool // "var.x", "local.x", "profile.x", "artifact.x"

	hostNames map[string]string // names that the plan gives machines, in lower case -> node
	agents    map[string]agent

	// What is the same for many nodes, or many times for one.
	shapes map[string]*shape
	orders map[string][]int // of steps, see orderOf

	// Room that each node uses anew.
	extra     int // the most steps that step blocks gave one
	unordered []steps.Spec
	orderKey  []byte
	manifests map[string][]kube.Manifest // by their text
	objects   map[string]clusterObject   // that manifests write, by objectKey
}

type agent struct {
	source steps.Source
	err    error
}

func newCompiler(p *Plan) *compiler {
	d := &decoded{Scope: eval.NewScope(p.files, p.opt.Env), written: p.blocks, lost: p.lost}
	return &compiler{decoded: d, opt: p.opt, dir: p.files.Dir, used: map[string]bool{},
		agents: map[string]agent{}, shapes: map[string]*shape{}, orders: map[string][]int{},
		hostNames: map[string]string{}, manifests: map[string][]kube.Manifest{}, objects: map[string]clusterObject{}}
}

// run goes through the blocks in the order in which they can depend on each other.
func (c *compiler) run(alone bool) *Compiled {
	decode(c.decoded, eval.Inputs{Vars: c.opt.Vars, Files: c.opt.VarFiles, Alone: alone})
	judge(c.decoded)
	for _, m := range c.machines {
		m.bad = !m.OK || m.OS == ""
		c.machineSettings(m, m.said)
		if box := m.Connection.Sandbox; box != nil && c.cluster != nil {
			box.ClusterDir = c.cluster.Sandbox
		}
	}
	c.manifestsBlock()
	stepBlocks := c.stepBlocks()
	out := &Compiled{Dir: c.Files.Dir}
	if c.cluster != nil {
		out.Cluster = &c.cluster.Cluster
		out.Manifests = c.cluster.manifests
	}
	for _, m := range c.machines {
		m.Labels, m.Taints = m.labels, m.taints
		if m.OS == "windows" {
			m.Build = m.knownBuild()
		}
		if !m.bad {
			c.expand(m, stepBlocks)
		}
		out.Nodes = append(out.Nodes, m.Node)
	}
	for _, b := range stepBlocks {
		if !b.evaluated {
			c.judge(b)
		}
	}
	if !c.List.HasErrors() { // else what seems unused may be misspelt elsewhere
		c.idle(stepBlocks)
		unused(c.decoded)
		c.unusedArtifacts()
	}
	out.Rollout = c.rollout(len(out.Nodes))
	slices.SortFunc(out.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// self is the object that step blocks see of their node.
func (c *compiler) self(m *machine, specs []steps.Spec) cty.Value {
	ip := eval.LaterString("fact.management_ip")
	if m.managementIP != "" {
		ip = cty.StringVal(m.managementIP)
	}
	self := map[string]cty.Value{
		"name": cty.StringVal(m.Name), "os": cty.StringVal(m.OS), "arch": cty.StringVal(m.Arch),
		"management_ip": ip, "hostname": eval.LaterString("fact.hostname"), "build": eval.LaterString("fact.build"),
		"data_dir": eval.LaterString("fact.data_dir"), "vars": m.vars,
	}
	for _, s := range m.settings.Steps {
		if n, ok := s.Args.(*kinds.HostName); ok {
			self["hostname"] = cty.StringVal(n.Name)
		}
	}
	if m.DataDir != "" {
		self["data_dir"] = cty.StringVal(m.DataDir)
	}
	// The gate on the Node's registration gives its pod CIDR.
	for _, s := range specs {
		if s.Kind == "node_registered" && c.cluster != nil && c.cluster.base.Network.Kind != "none" {
			self["pod_cidr"] = eval.LaterString(s.ID + ".pod_cidr")
		}
	}
	if c.cluster != nil && len(specs) == 0 {
		self["pod_cidr"] = cty.DynamicVal // why there is no recipe was reported
	}
	return cty.ObjectVal(self)
}
