package eval

import (
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// allTrue and anyTrue judge a list of conditions; allTrue of none is true, anyTrue of none is false.
var (
	allTrue = truth(true)
	anyTrue = truth(false)
)

// truth is a function of a list of conditions that ends at the first that is not all.
func truth(all bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			unknown := false
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				switch {
				case !v.IsKnown():
					unknown = true
				case v.IsNull():
					return cty.NilVal, errors.New("an element is null; each must be true or false")
				case v.True() != all:
					return cty.BoolVal(!all), nil
				}
			}
			if unknown {
				return cty.UnknownVal(cty.Bool), nil
			}
			return cty.BoolVal(all), nil
		}})
}

// one is the only element of a list or set, or null if there is none.
var one = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type: func(args []cty.Value) (cty.Type, error) {
		switch t := args[0].Type(); {
		case t.IsListType(), t.IsSetType():
			return t.ElementType(), nil
		case t.IsTupleType() && t.Length() == 0:
			return cty.DynamicPseudoType, nil
		case t.IsTupleType() && t.Length() == 1:
			return t.TupleElementType(0), nil
		case t.IsTupleType():
			return cty.NilType, notOne(t.Length())
		}
		return cty.NilType, errors.New("a list or a set is wanted")
	},
	Impl: func(args []cty.Value, typ cty.Type) (cty.Value, error) {
		switch n := args[0].LengthInt(); {
		case n == 0:
			return cty.NullVal(typ), nil
		case n > 1:
			return cty.NilVal, notOne(n)
		}
		it := args[0].ElementIterator()
		it.Next()
		_, v := it.Element()
		return v, nil
	}})

func notOne(n int) error { return fmt.Errorf("it has %d elements, and at most one is wanted", n) }

// length is the number of elements of a list, a set, a map or an object, or of the characters of a text.
var length = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowUnknown: true,
		AllowDynamicType: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		switch t := args[0].Type(); {
		case t == cty.DynamicPseudoType, t == cty.String, t.IsCollectionType(), t.IsTupleType(), t.IsObjectType():
			return cty.Number, nil
		}
		return cty.NilType, errors.New("a list, a set, a map, an object or a text is wanted")
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		switch t := args[0].Type(); {
		case t.IsObjectType():
			return cty.NumberIntVal(int64(len(t.AttributeTypes()))), nil
		case !args[0].IsKnown():
			return cty.UnknownVal(cty.Number), nil
		case t == cty.String:
			return stdlib.Strlen(args[0])
		}
		return args[0].Length(), nil
	}})
