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

// Datum is a data block or a module before it is read.
type Datum struct {
	Kind, Name string
	At         hcl.Range
	Exprs      []hcl.Expression // what it is read by; they may name locals and other data
	// Read is called once, when what Exprs name has values. It returns an unknown value for data that is not read.
	Read func(ctx *hcl.EvalContext) cty.Value
}

func (d Datum) key() string {
	if d.Kind == ModuleKind {
		return "module." + d.Name
	}
	return "data." + d.Kind + "." + d.Name
}

// named is a local or a data block: it has a value once what it names has one.
type named struct {
	at    hcl.Range
	exprs []hcl.Expression
	value func(ctx *hcl.EvalContext) cty.Value
}

// Values evaluates the locals and reads the data in the order in which they depend on each other, and makes them known
// as local.NAME, data.KIND.NAME and module.NAME.
func (sc *Scope) Values(locals []*hcl.Block, kinds []string, data []Datum, refs []source.Reference) {
	all := map[string]named{} // by "local.NAME", "data.KIND.NAME" and "module.NAME"
	var keys []string         // in the order of the plan
	for _, b := range locals {
		list, diags := b.Body.JustAttributes()
		sc.Extend(diags)
		for _, n := range slices.Sorted(maps.Keys(list)) {
			if before, again := all["local."+n]; again {
				sc.Fail(list[n].NameRange, "duplicate name",
					"local.%s is given at %s already. Names must be unique; rename one of them.", n, sc.Files.Place(before.at))
				continue
			}
			all["local."+n] = sc.local(list[n])
			keys = append(keys, "local."+n)
		}
	}
	for _, d := range data {
		all[d.key()] = named{at: d.At, exprs: d.Exprs, value: d.Read}
		keys = append(keys, d.key())
	}
	values := map[string]cty.Value{}
	for _, r := range refs {
		key := r.Root + "." + r.Name
		if _, known := all[key]; known || r.Root == "var" || r.Name == "" || values[key] != cty.NilVal {
			continue
		}
		switch r.Root {
		case "local":
			sc.Fail(r.At, "unknown local", "%s", UnknownName("local", r.Name, below("local", keys)))
		case "module":
			sc.Fail(r.At, "unknown module", "%s", UnknownName("module", r.Name, below("module", keys)))
		default:
			sc.Fail(r.At, "unknown data block", "%s", UnknownName("data block", r.Name, below("data", keys)))
		}
		values[key] = cty.DynamicVal
	}
	for _, k := range sc.order(keys, all, values) {
		values[k] = all[k].value(sc.withNamed(all[k].exprs, kinds, values))
	}
	sc.Ctx.Variables["local"] = rooted("local", values)
	sc.Ctx.Variables["data"] = dataOf(kinds, values)
	sc.Ctx.Variables["module"] = rooted("module", values)
}

// local is a local that evaluates its expression.
func (sc *Scope) local(a *hcl.Attribute) named {
	return named{at: a.NameRange, exprs: []hcl.Expression{a.Expr}, value: func(ctx *hcl.EvalContext) cty.Value {
		v, list := sc.value(a.Expr, ctx)
		if list.HasErrors() {
			sc.Extend(sc.clarify(list))
			return cty.DynamicVal
		}
		if dependsOnNodes(v) || !v.IsWhollyKnown() && namesNodes(a.Expr, ctx) {
			sc.beforeNodes(a.Expr, "local."+a.Name)
			return cty.DynamicVal
		}
		if err := within(v); err != nil {
			sc.Fail(a.Expr.Range(), "value too large", "local.%s: %s.", a.Name, err)
			return cty.DynamicVal
		}
		return v
	}}
}

// below returns the names of keys that begin with root, without it.
func below(root string, keys []string) (out []string) {
	for _, k := range keys {
		if name, ok := strings.CutPrefix(k, root+"."); ok {
			out = append(out, name)
		}
	}
	return out
}

// withNamed is the context for expressions of a local or of a data block. It has only the values that the expressions
// name, because an object of all of them for each one takes a time that grows with the square of their number.
func (sc *Scope) withNamed(exprs []hcl.Expression, kinds []string, values map[string]cty.Value) *hcl.EvalContext {
	some := map[string]cty.Value{}
	for _, e := range exprs {
		for _, t := range e.Variables() {
			key, whole := namedBy(t)
			switch {
			case key != "":
				if v, ok := values[key]; ok {
					some[key] = v
				}
			case whole: // such as keys(local): all that have a value by now
				maps.Copy(some, values)
			}
		}
	}
	ctx := sc.Ctx.NewChild()
	ctx.Variables = map[string]cty.Value{"local": rooted("local", some), "data": dataOf(kinds, some),
		"module": rooted("module", some)}
	return ctx
}

// namedBy is the key of the local, module or data block that is named as local.NAME, module.NAME or data.KIND.NAME.
// whole is true for an expression that takes locals, modules or data in another way.
func namedBy(t hcl.Traversal) (key string, whole bool) {
	parts := map[string]int{"local": 2, "data": 3, "module": 2}[t.RootName()]
	if parts == 0 {
		return "", false
	}
	if len(t) < parts {
		return "", true
	}
	key = t.RootName()
	for _, step := range t[1:parts] {
		a, ok := step.(hcl.TraverseAttr)
		if !ok {
			return "", true
		}
		key += "." + a.Name
	}
	return key, false
}

// rooted are the values whose keys are root.NAME.
func rooted(root string, values map[string]cty.Value) cty.Value {
	out := map[string]cty.Value{}
	for k, v := range values {
		if name, ok := strings.CutPrefix(k, root+"."); ok {
			out[name] = v
		}
	}
	return cty.ObjectVal(out)
}

func dataOf(kinds []string, values map[string]cty.Value) cty.Value {
	by := map[string]map[string]cty.Value{}
	for _, k := range kinds {
		by[k] = map[string]cty.Value{}
	}
	for k, v := range values {
		if rest, ok := strings.CutPrefix(k, "data."); ok {
			kind, name, _ := strings.Cut(rest, ".")
			if by[kind] == nil {
				by[kind] = map[string]cty.Value{}
			}
			by[kind][name] = v
		}
	}
	out := map[string]cty.Value{}
	for kind, list := range by {
		out[kind] = cty.ObjectVal(list)
	}
	return cty.ObjectVal(out)
}

// order lists keys so that each comes after those that it needs. Those in a circle are reported, have unknown values,
// and are not in the list.
func (sc *Scope) order(keys []string, all map[string]named, values map[string]cty.Value) []string {
	keys = slices.Clone(keys)
	for {
		var g graph.Graph[string]
		for _, k := range keys {
			g.Add(k)
		}
		for _, k := range keys {
			for _, e := range all[k].exprs {
				for _, t := range e.Variables() {
					if key, _ := namedBy(t); key != "" && g.Has(key) {
						_ = g.Edge(key, k) // both are nodes
					}
				}
			}
		}
		order, err := g.Order()
		var cycle *graph.CycleError[string]
		if !errors.As(err, &cycle) {
			return order
		}
		const detail = "Each of these needs the one before it, so none has a value: %s."
		summary := "values in a circle"
		if len(below("local", cycle.Path)) == len(cycle.Path) {
			summary = "locals in a circle"
		}
		sc.Fail(all[cycle.Path[0]].at, summary, detail, strings.Join(cycle.Path, " -> "))
		for _, k := range cycle.Path {
			values[k] = cty.DynamicVal
		}
		keys = slices.DeleteFunc(keys, func(k string) bool { return slices.Contains(cycle.Path, k) })
	}
}
