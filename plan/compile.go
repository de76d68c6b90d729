package plan

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/steps"
	"nodejoin/steps/kube"
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
	artifacts map[string][]*artifact
	mirror    string // absolute; "" = none
	mirrorAt  hcl.Range
	machines  []*machine
	hostNames map[string]string // names that the plan gives machines, in lower case -> node
	// valuesLost: a file of values could not be read, so what has none is not reported.
	valuesLost bool
	agents     map[string]agent
	secrets    *[]string // see adminSecrets

	// What is the same for many nodes, or many times for one.
	shapes    map[string]*shape
	orders    map[string][]int // of steps, see orderOf
	contents  map[*hcl.Block]*content
	templates map[string]hclsyntax.Expression // by name and text of a file
	files     map[string]fileText             // by name: a file is read once, and is the same for all

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
	c := &compiler{plan: p, opt: p.opt, diags: newDiags(), used: map[string]bool{}, agents: map[string]agent{},
		shapes: map[string]*shape{}, orders: map[string][]int{}, contents: map[*hcl.Block]*content{}, hostNames: map[string]string{}, templates: map[string]hclsyntax.Expression{}, files: map[string]fileText{},
		manifests: map[string][]kube.Manifest{}, objects: map[string]clusterObject{}}
	c.ctx = &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: c.functions()}
	return c
}

// run goes through the blocks in the order in which they can depend on each other.
func (c *compiler) run() *Compiled {
	for _, b := range c.plan.blocks["nodejoin"] {
		c.section(rootBlock("nodejoin"), b, c.ctx) // Load has judged its one argument
	}
	refs := c.references()
	c.variables(refs)
	c.locals(refs)
	c.clusterBlocks()
	c.profileBlocks()
	c.nodeBlocks()
	c.roomForNodes()
	c.onOneLink()
	c.manifestsBlock()
	stepBlocks := c.stepBlocks()
	out := &Compiled{Dir: c.plan.dir}
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
	if !c.diags.list.HasErrors() { // else what seems unused may be misspelt elsewhere
		c.idle(stepBlocks)
		c.unused()
	}
	out.Rollout = c.rollout(len(out.Nodes))
	slices.SortFunc(out.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
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

// idle warns of nodes on which nothing would be done.
func (c *compiler) idle(blocks []*stepBlock) {
	if len(c.plan.blocks["node"]) == 0 {
		c.diags.warn(hcl.Range{}, "no nodes", "The plan has no node block, so there is nothing to do. Add: node \"NAME\" { os = \"windows\" ... }.")
	}
	if c.cluster != nil {
		return
	}
	for _, m := range c.machines {
		if !m.bad && len(m.Steps) == 0 && !slices.ContainsFunc(blocks, func(b *stepBlock) bool { return b.runsOn(m) }) {
			c.diags.warnOn(m.Name, m.at, "nothing to do", "Node %q joins no cluster and has no step. Add a cluster block, or a step block for it.", m.Name)
		}
	}
}

// unused warns of what is given and named nowhere.
func (c *compiler) unused() {
	if c.mirror != "" && c.used["artifact"] && !c.used["mirror"] {
		c.diags.fail(c.mirrorAt, "block without effect", "Every artifact of the plan has its own url or file, so nothing is taken from the mirror. Remove the mirror block, or the url or file of the artifacts that it holds.")
	}
	if c.used["mirror"] {
		switch fi, err := os.Stat(c.mirror); { // the files in it are told when the hosts are checked
		case errors.Is(err, fs.ErrNotExist):
			c.diags.warn(c.mirrorAt, "mirror is not there", "The folder %s does not exist on this machine, so nothing could be installed from here. Make it with the artifacts in it, or mend the path.", c.mirror)
		case err == nil && !fi.IsDir():
			c.diags.warn(c.mirrorAt, "mirror is not there", "%s is no folder, so nothing could be installed from here. Mend the path.", c.mirror)
		}
	}
	for _, b := range c.plan.blocks["variable"] {
		if !c.used["var."+b.Labels[0]] {
			c.diags.warn(b.DefRange, "unused variable", "Nothing refers to var.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, b := range c.plan.blocks["locals"] {
		attrs, _ := b.Body.JustAttributes()
		for _, n := range sortedKeys(attrs) {
			if !c.used["local."+n] {
				c.diags.warn(attrs[n].NameRange, "unused local", "Nothing refers to local.%s. Remove it, or use it.", n)
			}
		}
	}
	for _, b := range c.plan.blocks["profile"] {
		if !c.used["profile."+b.Labels[0]] {
			c.diags.warn(b.DefRange, "unused profile", "No node has profile.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, name := range sortedKeys(c.artifacts) {
		for _, a := range c.artifacts[name] {
			if len(c.machines) > 0 && !a.used {
				c.diags.warn(a.at, "unused artifact", "No node of the plan needs the artifact %q%s. Remove it.", name, forNodes(a))
			}
		}
	}
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
			self["pod_cidr"] = laterString(s.ID + ".pod_cidr")
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
