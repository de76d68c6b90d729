package eval

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/graph"
	"nodejoin/plan/source"
)

// Locals evaluates the locals in the order in which they depend on each other.
func (sc *Scope) Locals(blocks []*hcl.Block, refs []source.Reference) {
	attrs := map[string]*hcl.Attribute{}
	var names []string
	for _, b := range blocks {
		list, diags := b.Body.JustAttributes()
		sc.Extend(diags)
		for _, n := range slices.Sorted(maps.Keys(list)) {
			if before := attrs[n]; before != nil {
				sc.Fail(list[n].NameRange, "duplicate name",
					"local.%s is given at %s already. Names must be unique; rename one of them.", n, sc.Files.Place(before.NameRange))
				continue
			}
			attrs[n] = list[n]
			names = append(names, n)
		}
	}
	values := map[string]cty.Value{}
	for _, r := range refs {
		if r.Root != "local" {
			continue
		}
		if attrs[r.Name] == nil && values[r.Name] == cty.NilVal {
			sc.Fail(r.At, "unknown local", "%s", UnknownName("local", r.Name, names))
			values[r.Name] = cty.DynamicVal
		}
	}
	order := sc.localsOrder(names, attrs, values)
	for _, n := range order {
		v, list := sc.value(attrs[n].Expr, sc.withLocals(attrs[n].Expr, values))
		if list.HasErrors() {
			sc.Extend(sc.clarify(list))
			v = cty.DynamicVal
		} else if err := within(v); err != nil {
			sc.Fail(attrs[n].Expr.Range(), "value too large", "local.%s: %s.", n, err)
			v = cty.DynamicVal
		}
		values[n] = v
	}
	sc.Ctx.Variables["local"] = cty.ObjectVal(values)
}

// withLocals is the context for an expression of a local. It has only the locals that the expression names, because
// an object of all of them for each one takes a time that grows with the square of their number.
func (sc *Scope) withLocals(expr hcl.Expression, values map[string]cty.Value) *hcl.EvalContext {
	named := map[string]cty.Value{}
	for _, t := range expr.Variables() {
		if t.RootName() != "local" {
			continue
		}
		name, ok := localName(t)
		if !ok { // such as keys(local): all that have a value by now
			return sc.With("local", values)
		}
		if v, ok := values[name]; ok {
			named[name] = v
		}
	}
	return sc.With("local", named)
}

// localName is the name in local.NAME; ok is false for an expression that takes the locals in another way.
func localName(t hcl.Traversal) (name string, ok bool) {
	if len(t) < 2 {
		return "", false
	}
	a, ok := t[1].(hcl.TraverseAttr)
	return a.Name, ok
}

// localsOrder lists the locals so that each comes after those that it needs. Those in a circle
// are reported, have unknown values, and are not in the list.
func (sc *Scope) localsOrder(names []string, attrs map[string]*hcl.Attribute, values map[string]cty.Value) []string {
	names = slices.Clone(names)
	for {
		var g graph.Graph[string]
		for _, n := range names {
			g.Add(n)
		}
		for _, n := range names {
			for _, t := range attrs[n].Expr.Variables() {
				if name, ok := localName(t); ok && t.RootName() == "local" && g.Has(name) {
					_ = g.Edge(name, n) // both are nodes
				}
			}
		}
		order, err := g.Order()
		var cycle *graph.CycleError[string]
		if !errors.As(err, &cycle) {
			return order
		}
		path := "local." + strings.Join(cycle.Path, " -> local.")
		sc.Fail(attrs[cycle.Path[0]].NameRange, "locals in a circle",
			"Each of these needs the one before it, so none has a value: %s.", path)
		for _, n := range cycle.Path {
			values[n] = cty.DynamicVal
		}
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(cycle.Path, n) })
	}
}
