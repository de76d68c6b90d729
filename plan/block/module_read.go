package block

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
)

// moduleRead is a module with its values, once for each element of its for_each.
type moduleRead struct {
	address string // module.base, or module.base["a"]; in another module after its address and a dot
	*eval.Scope
	blocks map[string][]*hcl.Block
}
