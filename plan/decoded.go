package plan

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

// decoded is a plan as its blocks say it: values with their places, each block judged by itself.
type decoded struct {
	*eval.Scope
	written map[string][]*hcl.Block // the blocks, by type, in order of files and lines
	lost    map[string]bool         // types of blocks that are written, rightly or not
	refs    []source.Reference      // every var.x and local.x

	mirror    *mirror // nil = none
	cluster   *cluster
	artifacts map[string][]*artifact
	profiles  map[string]*profile
	machines  []*machine
	secrets   *[]string // see adminSecrets
}

// mirror is the mirror block.
type mirror struct {
	path string // absolute; "" = what is wrong with it was reported
	at   hcl.Range
}

// decode reads the blocks of a plan, in the order in which they can depend on each other.
func decode(p *decoded, in eval.Inputs) {
	for _, b := range p.written["nodejoin"] {
		p.Section(rootBlock("nodejoin"), b, p.Ctx) // Load has judged its one argument
	}
	p.refs = p.Files.References()
	p.Variables(rootBlock("variable"), p.written["variable"], in, p.refs)
	p.Locals(p.written["locals"], p.refs)
	p.mirror = decodeMirror(p.Scope, p.written["mirror"])
	p.artifacts = decodeArtifacts(p.Scope, p.written["artifact"])
	runtimes, networks := []*runtime{}, []*network{}
	before := p.Errors()
	var k *cluster
	for _, b := range p.written["cluster"] {
		k = decodeCluster(p.Scope, b)
	}
	for _, b := range p.written["runtime"] {
		runtimes = append(runtimes, decodeRuntime(p.Scope, b))
	}
	for _, b := range p.written["network"] {
		networks = append(networks, decodeNetwork(p.Scope, b))
	}
	if p.cluster = k; k != nil {
		if len(runtimes) > 0 && runtimes[0] != nil {
			k.runtime, k.base.Runtime = runtimes[0], runtimes[0].Runtime
		}
		if len(networks) > 0 && networks[0] != nil {
			k.network, k.base.Network = networks[0], networks[0].Network
		}
		k.Runtime = k.base.Runtime.Kind
		k.complete = p.Errors() == before && k.runtime != nil && k.network != nil
	}
	version := ""
	if k != nil {
		version = k.Version
	}
	p.profiles = decodeProfiles(p.Scope, p.written["profile"], version)
	for _, b := range p.written["node"] {
		p.machines = append(p.machines, decodeNodes(p.Scope, b, p.profiles, version)...)
	}
}
