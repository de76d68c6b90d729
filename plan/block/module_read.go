package block

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

// moduleReader evaluates the modules of a plan, or of another module.
type moduleReader struct {
	*eval.Scope
	unvalued bool
	inside   []string // folders of the modules that this one is in, the outermost first
	address  string   // of the module that is read, with a dot: module.base.; "" = the plan
	log      *moduleLog
}

// moduleCall is one module block.
type moduleCall struct {
	*moduleReader
	*eval.Section
	files *source.Files // as the module sees them
	dir   string        // absolute
	key   string        // of the element of for_each, as it is written after the name: ["a"]; "" = there is none
	// each is true for a module with for_each, and element the key of its element.
	each    bool
	element string
	blocks  map[string][]*hcl.Block
}

// moduleLog is what was read of modules.
type moduleLog struct {
	read   []moduleRead
	remote []source.Remote // those that are not beside the plan
}

// moduleRead is a module with its values, once for each element of its for_each.
type moduleRead struct {
	address string // module.base, or module.base["a"]; in another module after its address and a dot
	*eval.Scope
	blocks  map[string][]*hcl.Block
	outer   *eval.Scope // in which its outputs are module.NAME
	outputs eval.ModuleOutputs
	late    []*hcl.Block // outputs and checks that name nodes
}

// withNodes evaluates what names nodes in the modules of a plan, once their nodes, by address and name, are read.
func withNodes(plan *eval.Scope, list []moduleRead, nodes map[string]map[string]cty.Value) {
	changed := map[*eval.Scope][]eval.ModuleOutputs{}
	for _, m := range list { // those in a module come before it
		m.SetOutputs(changed[m.Scope])
		if len(m.late) == 0 {
			continue
		}
		ctx := m.With("node", nodes[m.address])
		for _, b := range m.late {
			decodeResult(m.Scope, b, ctx, m.outputs.Values)
		}
		changed[m.outer] = append(changed[m.outer], m.outputs)
	}
	plan.SetOutputs(changed[plan])
}
