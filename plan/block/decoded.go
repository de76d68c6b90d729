package block

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

// Plan is a decoded plan: values with their places, each block checked by itself.
type Plan struct {
	*eval.Scope
	Written map[string][]*hcl.Block // the blocks, by type, in order of files and lines
	Lost    map[string]bool         // types of blocks that are written, rightly or not
	Refs    []source.Reference      // every var.x, local.x and data.KIND.x

	Mirror    *mirror // nil = none
	Verify    *Verify // nil = none
	Cluster   *ClusterBlocks
	Artifacts map[string][]*Artifact
	Profiles  map[string]*Profile // by address: profile.windows, or module.base.profile.windows
	Machines  []*Machine
	Steps     []*StepBlock
	Outputs   []Output
	Data      []Data   // in the order in which they were read
	Unread    []string // addresses of data that has no value; see Inputs.Unvalued
	Modules   []source.Remote
	Secrets   *[]string // see adminSecrets
}

// Decode reads the blocks of a plan, in the order in which they can depend on each other.
func Decode(p *Plan, in eval.Inputs) {
	for _, b := range p.Written["nodejoin"] {
		p.Section(Root("nodejoin"), b, p.Ctx) // Load has checked its one argument
	}
	p.Refs = p.Files.References()
	p.Variables(Root("variable"), p.Written["variable"], in, p.Refs)
	data := &dataReader{Scope: p.Scope, unvalued: in.Unvalued}
	modules := &moduleReader{Scope: p.Scope, unvalued: in.Unvalued, inside: []string{p.Files.Dir},
		log: &moduleLog{}}
	data.values(p.Written["locals"], p.Written["data"], modules.data(p.Written["module"]), p.Refs)
	p.Data, p.Unread = data.read, data.unread
	p.Mirror = decodeMirror(p.Scope, p.Written["mirror"])
	p.Verify = decodeVerify(p.Scope, p.Written["verify"])
	p.Artifacts = decodeArtifacts(p.Scope, p.Written["artifact"])
	runtimes, networks := []*Runtime{}, []*network{}
	before := p.Errors()
	var k *ClusterBlocks
	for _, b := range p.Written["cluster"] {
		k = decodeCluster(p.Scope, b)
	}
	for _, b := range p.Written["runtime"] {
		runtimes = append(runtimes, decodeRuntime(p.Scope, Root("runtime"), b))
	}
	for _, b := range p.Written["network"] {
		networks = append(networks, decodeNetwork(p.Scope, Root("network"), b))
	}
	p.Cluster = k
	if k != nil {
		if len(runtimes) > 0 && runtimes[0] != nil {
			k.RuntimeBlock, k.Base.Runtime = runtimes[0], runtimes[0].Runtime
		}
		if len(networks) > 0 && networks[0] != nil {
			k.NetworkBlock, k.Base.Network = networks[0], networks[0].Network
		}
		k.Runtime = k.Base.Runtime.Kind
		k.complete = p.Errors() == before && k.RuntimeBlock != nil && k.NetworkBlock != nil
	}
	version := ""
	if k != nil {
		version = k.Version
	}
	profiles := decodeProfiles(p.Scope, p.Written["profile"], modules.log.read, version)
	p.Modules = modules.log.remote
	p.Profiles = profiles.all
	nodes := map[string]map[string]cty.Value{"": p.nodes(p.Scope, p.Written["node"], "", profiles, version,
		len(p.Written["output"])+len(p.Written["check"]) > 0)}
	p.Steps = decodeSteps(p.Scope, p.Written["step"], p.Written["node"], "")
	for _, m := range modules.log.read {
		nodes[m.address] = p.nodes(m.Scope, m.blocks["node"], m.address, profiles.of(m.address), version, len(m.late) > 0)
		p.Steps = append(p.Steps, decodeSteps(m.Scope, m.blocks["step"], m.blocks["node"], m.address)...)
	}
	withNodes(p.Scope, modules.log.read, nodes)
	results := p.With("node", nodes[""])
	for _, b := range p.Written["output"] {
		o, _ := decodeOutput(p.Scope, b, results)
		p.Outputs = append(p.Outputs, o)
	}
	for _, b := range p.Written["check"] {
		decodeCheck(p.Scope, b, results)
	}
}

// nodes adds the nodes of the plan, or of the module with the address, and returns their values by label, if wanted:
// those of thousands of nodes take time and memory.
func (p *Plan) nodes(sc *eval.Scope, blocks []*hcl.Block, module string, from profileSet, version string, wanted bool,
) map[string]cty.Value {
	out := map[string]cty.Value{}
	for _, b := range blocks {
		list, whole := decodeNodes(sc, b, from, version)
		for _, m := range list {
			m.module = module
		}
		p.Machines = append(p.Machines, list...)
		out[b.Labels[0]] = cty.DynamicVal
		if whole && wanted {
			out[b.Labels[0]] = nodeValue(b, list)
		}
	}
	return out
}
