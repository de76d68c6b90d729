package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// MaxInstances bounds what one block makes with count or for_each.
const MaxInstances = 10000

// Element is one of for_each.
type Element struct {
	Key   string
	Value cty.Value
}

// AnyElement stands for the elements of a for_each whose value is not known, so that what it makes can be judged.
var AnyElement = map[string]cty.Value{"key": cty.UnknownVal(cty.String), "value": cty.DynamicVal}

// ForEach returns the elements of a map, an object or a set of strings, by key. known is false where they depend on a
// value that is not known, for example because it is wrong.
func (sc *Scope) ForEach(a *hcl.Attribute, ctx *hcl.EvalContext) (out []Element, known bool) {
	before := sc.Errors()
	v, o := sc.EvaluateMarked(a.Expr, ctx, "for_each", cty.DynamicPseudoType, Allow{Sensitive: true, Later: true})
	if o == IsWrong && sc.Errors() == before {
		return nil, false
	}
	return sc.elements(a, v, o), true
}

// elements are those of a value of for_each.
func (sc *Scope) elements(a *hcl.Attribute, v cty.Value, o Outcome) []Element {
	if o == IsNull {
		sc.Fail(a.Expr.Range(), "missing value",
			"The argument \"for_each\" is null here. For nothing at all let it be an empty map, {}.")
	}
	if o != IsValue {
		return nil
	}
	v, marks := v.Unmark()
	if _, secret := marks[sensitive]; secret {
		sc.Fail(a.Expr.Range(), "sensitive value", "The keys of \"for_each\" name what it makes and are shown in plans "+
			"and logs, so they cannot come from a sensitive value. Values of a map can.")
		return nil
	}
	if _, isLater := marks[later]; isLater {
		sc.Fail(a.Expr.Range(), "value known too late", "The keys of \"for_each\" name what it makes, so they must be "+
			"known while the plan is compiled. Values of a map may be known later.")
		return nil
	}
	t := v.Type()
	if !t.IsMapType() && !t.IsObjectType() && (!t.IsSetType() || t.ElementType() != cty.String) {
		sc.Fail(a.Expr.Range(), "wrong type",
			"The argument \"for_each\" wants a map or a set of strings, and this is %s. A list becomes a set with toset(...).",
			friendly(t))
		return nil
	}
	if n := v.LengthInt(); n > MaxInstances {
		sc.Fail(a.Expr.Range(), "too many elements",
			"The argument \"for_each\" has %d elements; it takes at most %d. Divide them over several blocks.", n, MaxInstances)
		return nil
	}
	var out []Element
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if t.IsSetType() {
			k = e
		}
		if k.IsNull() {
			sc.Fail(a.Expr.Range(), "missing value", "The argument \"for_each\" holds a null element; each must be a "+
				"string, as it names one of the results. Leave null ones out: [for x in LIST : x if x != null].")
			return nil
		}
		out = append(out, Element{k.AsString(), e})
	}
	return out
}
