package plan

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// compiler is the state of one Compile.
type compiler struct {
	plan *Plan
	opt  Options
	*eval.Scope
	used map[string]bool // "var.x", "local.x", "profile.x", "artifact.x"

	profiles  map[string]*profile
	cluster   *cluster
	artifacts map[string][]*artifact
	mirror    string // absolute; "" = none
	mirrorAt  hcl.Range
	machines  []*machine
	hostNames map[string]string // names that the plan gives machines, in lower case -> node
	agents    map[string]agent
	secrets   *[]string // see adminSecrets

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
	return &compiler{plan: p, opt: p.opt, Scope: eval.NewScope(p.files, p.opt.Env), used: map[string]bool{},
		agents: map[string]agent{}, shapes: map[string]*shape{}, orders: map[string][]int{},
		hostNames: map[string]string{}, manifests: map[string][]kube.Manifest{}, objects: map[string]clusterObject{}}
}

// run goes through the blocks in the order in which they can depend on each other.
func (c *compiler) run() *Compiled {
	for _, b := range c.plan.blocks["nodejoin"] {
		c.Section(rootBlock("nodejoin"), b, c.Ctx) // Load has judged its one argument
	}
	refs := c.Files.References()
	for _, r := range refs {
		c.used[r.Root+"."+r.Name] = true
	}
	c.Variables(rootBlock("variable"), c.plan.blocks["variable"], eval.Inputs{Vars: c.opt.Vars, Files: c.opt.VarFiles, Alone: c.plan.alone}, refs)
	c.Locals(c.plan.blocks["locals"], refs)
	c.clusterBlocks()
	c.profileBlocks()
	c.nodeBlocks()
	c.roomForNodes()
	c.onOneLink()
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
		c.unused()
	}
	out.Rollout = c.rollout(len(out.Nodes))
	slices.SortFunc(out.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// idle warns of nodes on which nothing would be done.
func (c *compiler) idle(blocks []*stepBlock) {
	if len(c.plan.blocks["node"]) == 0 {
		c.Warn(hcl.Range{}, "no nodes", "The plan has no node block, so there is nothing to do. Add: node \"NAME\" { os = \"windows\" ... }.")
	}
	if c.cluster != nil {
		return
	}
	for _, m := range c.machines {
		if !m.bad && len(m.Steps) == 0 && !slices.ContainsFunc(blocks, func(b *stepBlock) bool { return b.runsOn(m) }) {
			c.WarnOn(m.Name, m.at, "nothing to do", "Node %q joins no cluster and has no step. Add a cluster block, or a step block for it.", m.Name)
		}
	}
}

// unused warns of what is given and named nowhere.
func (c *compiler) unused() {
	if c.mirror != "" && c.used["artifact"] && !c.used["mirror"] {
		c.Fail(c.mirrorAt, "block without effect", "Every artifact of the plan has its own url or file, so nothing is taken from the mirror. Remove the mirror block, or the url or file of the artifacts that it holds.")
	}
	if c.used["mirror"] {
		switch fi, err := os.Stat(c.mirror); { // the files in it are told when the hosts are checked
		case errors.Is(err, fs.ErrNotExist):
			c.Warn(c.mirrorAt, "mirror is not there", "The folder %s does not exist on this machine, so nothing could be installed from here. Make it with the artifacts in it, or mend the path.", c.mirror)
		case err == nil && !fi.IsDir():
			c.Warn(c.mirrorAt, "mirror is not there", "%s is no folder, so nothing could be installed from here. Mend the path.", c.mirror)
		}
	}
	for _, b := range c.plan.blocks["variable"] {
		if !c.used["var."+b.Labels[0]] {
			c.Warn(b.DefRange, "unused variable", "Nothing refers to var.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, b := range c.plan.blocks["locals"] {
		attrs, _ := b.Body.JustAttributes()
		for _, n := range slices.Sorted(maps.Keys(attrs)) {
			if !c.used["local."+n] {
				c.Warn(attrs[n].NameRange, "unused local", "Nothing refers to local.%s. Remove it, or use it.", n)
			}
		}
	}
	for _, b := range c.plan.blocks["profile"] {
		if !c.used["profile."+b.Labels[0]] {
			c.Warn(b.DefRange, "unused profile", "No node has profile.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.artifacts)) {
		for _, a := range c.artifacts[name] {
			if len(c.machines) > 0 && !a.used {
				c.Warn(a.at, "unused artifact", "No node of the plan needs the artifact %q%s. Remove it.", name, forNodes(a))
			}
		}
	}
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
		if n, ok := s.Args.(*steps.HostName); ok {
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

// forNodes says in words which nodes an artifact is for.
func forNodes(a *artifact) string {
	switch {
	case a.os != "" && a.arch != "":
		return " for " + a.os + "/" + a.arch
	case a.os != "" || a.arch != "":
		return " for " + a.os + a.arch
	}
	return ""
}
