package eval

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"nodejoin/steps"
)

// LaterString is the value of a reference.
func LaterString(ref string) cty.Value { return cty.StringVal(steps.Ref(ref)).Mark(later) }

// marksOf returns the marks of a value and of everything in it, and the value without them.
func marksOf(v cty.Value) (plain cty.Value, isSensitive, isLater bool) {
	plain, marks := v.UnmarkDeep()
	_, isSensitive = marks[sensitive]
	_, isLater = marks[later]
	return plain, isSensitive, isLater
}

// Secret reports whether something in a value is sensitive.
func Secret(v cty.Value) bool {
	_, secret, _ := marksOf(v)
	return secret
}

// Hide makes a value sensitive.
func Hide(v cty.Value) cty.Value { return v.Mark(sensitive) }

// holdsRef reports whether a string somewhere in v holds a reference.
func holdsRef(v cty.Value) bool {
	found := false
	v, _ = v.UnmarkDeep()
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.String && steps.HasRef(v.AsString()) {
			found = true
		}
		return !found, nil
	})
	return found
}

// Allow says what a value may be, besides known.
type Allow struct {
	Sensitive bool
	Later     bool
}

// Outcome is the result of an expression.
type Outcome int

const (
	IsValue Outcome = iota
	IsNull          // null: as if it were not written
	IsWrong         // reported now, or before where the value comes from
)

// Evaluate returns the value of an expression as typ, without marks, and whether it was
// sensitive. There is a value only if the outcome is IsValue.
func (sc *Scope) Evaluate(e hcl.Expression, ctx *hcl.EvalContext, name string, typ cty.Type, may Allow) (v cty.Value,
	secret bool, o Outcome) {
	v, o = sc.EvaluateMarked(e, ctx, name, typ, may)
	if o != IsValue {
		return cty.NilVal, false, o
	}
	v, secret, _ = marksOf(v)
	return v, secret, IsValue
}

// EvaluateMarked is Evaluate that leaves the marks on the value.
func (sc *Scope) EvaluateMarked(e hcl.Expression, ctx *hcl.EvalContext, name string, typ cty.Type,
	may Allow) (cty.Value, Outcome) {
	have, list := sc.value(e, ctx)
	if list.HasErrors() {
		sc.Extend(sc.clarify(list))
		return cty.NilVal, IsWrong
	}
	v, err := convert.Convert(have, typ)
	if err != nil {
		sc.Fail(e.Range(), "wrong type", "The argument %q wants %s%s.", name, friendly(typ), mismatch(have, typ, err))
		return cty.NilVal, IsWrong
	}
	plain, secret, isLater := marksOf(v)
	switch {
	case dependsOnNodes(v) || !plain.IsWhollyKnown() && namesNodes(e, ctx): // try and can drop marks
		sc.beforeNodes(e, fmt.Sprintf("The argument %q", name))
		return cty.NilVal, IsWrong
	case !plain.IsWhollyKnown():
		return cty.NilVal, IsWrong // what it depends on was reported where it is wrong
	case plain.IsNull():
		return cty.NilVal, IsNull
	}
	if secret && !may.Sensitive {
		sc.Fail(e.Range(), "sensitive value", "The argument %q is shown in plans and logs, so it cannot take a sensitive "+
			"value. Only the content of a file, the value of a variable of the environment and the URL of a proxy can. "+
			"A value that is not a secret is shown with nonsensitive(...).", name)
		return cty.NilVal, IsWrong
	}
	switch {
	case !isLater && holdsRef(plain):
		sc.Fail(e.Range(), "invalid character",
			"The argument %q holds a NUL character, which no file, path or command line can hold.", name)
		return cty.NilVal, IsWrong
	case isLater && !may.Later:
		sc.Fail(e.Range(), "value known too late", "The argument %q is needed while the plan is compiled; "+
			"self.management_ip and its like are known only when the node is joined. Use them in arguments of steps.", name)
		return cty.NilVal, IsWrong
	case isLater && (!laterIntact(v) || decidesByLater(e, ctx)):
		sc.Fail(e.Range(), "value known too late", "The argument %q decides by a value that is known only when the node "+
			"is joined, so nothing can be decided now. Such values can be passed on whole or in a template, "+
			"\"http://${self.management_ip}:10248\".", name)
		return cty.NilVal, IsWrong
	}
	return v, IsValue
}

// decidesByLater reports whether a condition in the expression depends on a value
// that is known only later. The result may hold a reference all the same.
func decidesByLater(e hcl.Expression, ctx *hcl.EvalContext) bool {
	node, ok := e.(hclsyntax.Node)
	if !ok {
		return false
	}
	found := false
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		var by hclsyntax.Expression
		switch n := n.(type) {
		case *hclsyntax.ConditionalExpr:
			by = n.Condition
		case *hclsyntax.ForExpr:
			if n.CondExpr != nil {
				by = n.CollExpr
			}
		}
		if by != nil {
			// What names variables of an outer "for" has no value here.
			if v, list := by.Value(ctx); !list.HasErrors() {
				_, _, isLater := marksOf(v)
				found = found || isLater
			}
		}
		return nil
	})
	return found
}

// mismatch describes a value that is not of type typ, without showing any of it.
func mismatch(have cty.Value, typ cty.Type, err error) string {
	text := err.Error()
	whole := strings.HasSuffix(text, " required") && !strings.HasSuffix(text, "is required") &&
		!strings.Contains(text, ":")
	if !have.Type().IsPrimitiveType() && (typ.IsCollectionType() || typ.IsObjectType()) && !whole {
		return ": " + text // it says which element
	}
	if have.Type() == cty.String && typ.IsPrimitiveType() {
		return ", and this text is none"
	}
	return ", and this is " + friendly(have.Type())
}

// laterIntact reports whether each value with the mark is still a string with a reference. If
// not, an expression computed something from the reference itself.
func laterIntact(v cty.Value) bool {
	plain, paths := v.UnmarkDeepWithPaths()
	for _, p := range paths {
		if _, ok := p.Marks[later]; !ok {
			continue
		}
		at, err := p.Path.Apply(plain)
		if err != nil || !holdsRef(at) {
			return false
		}
	}
	return true
}

// clarify rewords HCL's diagnostics of names that exist elsewhere, and keeps references out of
// the values that a diagnostic would show.
func (sc *Scope) clarify(list hcl.Diagnostics) hcl.Diagnostics {
	for _, g := range list {
		if g.Expression != nil && g.EvalContext != nil && showsMarked(g) {
			g.Expression, g.EvalContext = nil, nil
			continue
		}
		if call, ok := g.Expression.(*hclsyntax.FunctionCallExpr); ok && g.Summary == "Call to unknown function" {
			g.Detail = UnknownName("function", call.Name, slices.Sorted(maps.Keys(sc.Ctx.Functions)))
			continue
		}
		g.Detail = strings.TrimSuffix(g.Detail, ".") + "." // what functions say may end with one
		for strings.HasSuffix(g.Detail, "..") {
			g.Detail = strings.TrimSuffix(g.Detail, ".")
		}
		if g.Summary == "Unsupported attribute" && g.Expression != nil && g.EvalContext != nil {
			clarifySelf(g)
			clarifyAttribute(g)
		}
		if g.Summary == "Invalid index" && g.Expression != nil && g.EvalContext != nil {
			clarifyIndex(g)
		}
		if g.Summary != "Unknown variable" || g.Expression == nil {
			continue
		}
		for _, t := range g.Expression.Variables() {
			switch root := t.RootName(); root {
			case "each":
				g.Detail = "each.key and each.value exist only in a node, step or module block with for_each."
			case "count":
				g.Detail = "count.index exists only in a node block with count."
			case "self":
				g.Detail = "self exists only in step blocks."
			case "node":
				g.Detail = "Nodes can be named only in the argument \"on\" of a step block, in outputs and in checks."
			case "profile":
				g.Detail = "Profiles can be named only in the argument \"profile\" of a node block."
			case "step":
				g.Detail = "Values of other steps cannot be used here; name steps by their text in \"after\" and \"before\"."
			case "var", "local", "data":
				g.Detail = "Variables, locals and data cannot be used here; write the value itself."
			default:
				g.Detail = fmt.Sprintf("There is no value %q. A text stands in quotes. Values are var.NAME, local.NAME and "+
					"data.KIND.NAME.value; each.key and each.value with for_each, count.index with count; self.NAME in steps.", root)
			}
		}
	}
	return list
}

// clarifyAttribute lists the attributes of an object if a name of each, count or a value is
// wrong.
func clarifyAttribute(g *hcl.Diagnostic) {
	for _, t := range g.Expression.Variables() {
		for i := 1; i < len(t); i++ {
			have, list := t[:i].TraverseAbs(g.EvalContext)
			name, ok := t[i].(hcl.TraverseAttr)
			if !ok || list.HasErrors() || !have.Type().IsObjectType() || have.Type().HasAttribute(name.Name) ||
				t.RootName() == "self" {
				continue
			}
			g.Detail = UnknownName("value of "+traversed(t[:i])+" named", name.Name,
				slices.Sorted(maps.Keys(have.Type().AttributeTypes())))
			return
		}
	}
}

// clarifyIndex lists the keys of a map or an object, or the length of a list, if an index is
// wrong.
func clarifyIndex(g *hcl.Diagnostic) {
	tell := func(name string, have, key cty.Value) {
		t := have.Type()
		if !have.IsKnown() || have.IsNull() || !key.IsKnown() || key.IsNull() {
			return
		}
		switch {
		case (t.IsMapType() || t.IsObjectType()) && key.Type() == cty.String:
			if keys := slices.Sorted(maps.Keys(have.AsValueMap())); !slices.Contains(keys, key.AsString()) {
				g.Detail = UnknownName("element of "+name+" with the key", key.AsString(), keys)
			}
		case (t.IsListType() || t.IsTupleType()) && key.Type() == cty.Number:
			g.Detail = fmt.Sprintf("The list %s has a length of %d, and its first element the index 0.", name, have.LengthInt())
		}
	}
	switch e := g.Expression.(type) {
	case *hclsyntax.IndexExpr:
		have, list := e.Collection.Value(g.EvalContext)
		key, more := e.Key.Value(g.EvalContext)
		if in, ok := e.Collection.(*hclsyntax.ScopeTraversalExpr); ok && !list.HasErrors() && !more.HasErrors() {
			tell(traversed(in.Traversal), have, key)
		}
	case *hclsyntax.ScopeTraversalExpr:
		for i, step := range e.Traversal {
			index, ok := step.(hcl.TraverseIndex)
			if !ok {
				continue
			}
			if have, list := e.Traversal[:i].TraverseAbs(g.EvalContext); !list.HasErrors() {
				tell(traversed(e.Traversal[:i]), have, index.Key)
			}
		}
	}
}

// traversed writes a traversal as in a plan, without the values of its indexes.
func traversed(t hcl.Traversal) string {
	text := t.RootName()
	for _, step := range t[1:] {
		if a, ok := step.(hcl.TraverseAttr); ok {
			text += "." + a.Name
		} else {
			text += "[...]"
		}
	}
	return text
}

// clarifySelf lists the attributes of self if a name is wrong.
func clarifySelf(g *hcl.Diagnostic) {
	for _, t := range g.Expression.Variables() {
		if len(t) < 2 || t.RootName() != "self" {
			continue
		}
		name, ok := t[1].(hcl.TraverseAttr)
		self, list := t[:1].TraverseAbs(g.EvalContext)
		if !ok || list.HasErrors() || !self.Type().IsObjectType() {
			continue
		}
		if self.Type().HasAttribute(name.Name) {
			if name.Name == "vars" && len(t) > 2 {
				if v, ok := t[2].(hcl.TraverseAttr); ok {
					g.Detail = fmt.Sprintf("The node has no value %q in the argument \"vars\" of its block.", v.Name)
				}
			}
			continue
		}
		if name.Name == "pod_cidr" {
			g.Detail = "self.pod_cidr exists only for nodes of a cluster with a pod network of nodejoin: the plan has no " +
				"cluster block, or its network is \"none\"."
			continue
		}
		g.Detail = UnknownName("value of self named", name.Name, slices.Sorted(maps.Keys(self.Type().AttributeTypes())))
	}
}

// showsMarked reports whether a value that the diagnostic would show is marked.
func showsMarked(g *hcl.Diagnostic) bool {
	for _, t := range g.Expression.Variables() {
		if v, list := t.TraverseAbs(g.EvalContext); !list.HasErrors() && v.ContainsMarked() {
			return true
		}
	}
	return false
}

// friendly names a type for people.
func friendly(t cty.Type) string {
	switch {
	case t == cty.String:
		return "a string"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case t.IsListType() && t.ElementType() == cty.String:
		return "a list of strings"
	case t.IsMapType() && t.ElementType() == cty.String:
		return "a map of strings"
	case t.IsTupleType():
		return "a list"
	case t.IsObjectType():
		return "an object"
	case t.IsListType():
		return "a list of " + plurals(t.ElementType())
	case t.IsSetType():
		return "a set of " + plurals(t.ElementType())
	case t.IsMapType():
		return "a map of " + plurals(t.ElementType())
	}
	return t.FriendlyName()
}

// plurals names the elements of a list or a map.
func plurals(t cty.Type) string {
	switch {
	case t == cty.String, t == cty.Number:
		return t.FriendlyName() + "s"
	case t == cty.Bool:
		return "true or false"
	case t.IsObjectType():
		return "objects"
	case t.IsMapType():
		return "maps"
	case t.IsListType(), t.IsSetType(), t.IsTupleType():
		return "lists"
	}
	return "values"
}

// UnknownName is the detail for a name that does not exist.
func UnknownName(what, have string, known []string) string {
	slices.Sort(known)
	s := "There is no " + what + " " + strconv.Quote(have) + "."
	if m := DidYouMean(have, known); m != "" {
		return s + m
	}
	if len(known) == 0 {
		return s + " The plan has none."
	}
	if len(known) > 12 {
		return s
	}
	return s + " There is " + strings.ReplaceAll(OneOf(known), " or ", " and ") + "."
}
