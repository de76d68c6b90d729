package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// ModuleInputs are the values of a module's variables.
type ModuleInputs struct {
	Module string    // its name, with the key of its for_each: m["a"]
	At     hcl.Range // its block
	Values map[string]ModuleInput
}

// ModuleInput is one of them, and where it stands.
type ModuleInput struct {
	Value   cty.Value
	Key, At hcl.Range
}
