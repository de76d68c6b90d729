package block

import (
	"github.com/hashicorp/hcl/v2"

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
	files  *source.Files // as the module sees them
	dir    string        // absolute
	key    string        // of the element of for_each, as it is written after the name: ["a"]; "" = there is none
	blocks map[string][]*hcl.Block
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
	blocks map[string][]*hcl.Block
}
