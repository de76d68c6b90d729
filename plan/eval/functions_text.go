package eval

import (
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

func text(params ...string) []function.Parameter {
	out := make([]function.Parameter, len(params))
	for i, p := range params {
		out[i] = function.Parameter{Name: p, Type: cty.String}
	}
	return out
}

// stringFunc is a function from strings to a string.
func stringFunc(do func(args []string) (string, error), params ...string) function.Function {
	return function.New(&function.Spec{Params: text(params...), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			in := make([]string, len(args))
			for i, a := range args {
				in[i] = a.AsString()
			}
			out, err := do(in)
			return cty.StringVal(out), err
		}})
}

// textTest is a function from two strings to true or false.
func textTest(do func(text, part string) bool, part string) function.Function {
	return boolFunc(func(a []string) (bool, error) { return do(a[0], a[1]), nil }, "text", part)
}

// boolFunc is a function from strings to true or false.
func boolFunc(do func(args []string) (bool, error), params ...string) function.Function {
	return function.New(&function.Spec{Params: text(params...), Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			in := make([]string, len(args))
			for i, a := range args {
				in[i] = a.AsString()
			}
			ok, err := do(in)
			return cty.BoolVal(ok), err
		}})
}
