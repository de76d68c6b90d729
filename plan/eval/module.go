package eval

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/source"
)

// ModuleKind is the kind of a Datum that is a module: module.NAME.
const ModuleKind = "module"

// Inside is a scope for the module that sees these files: it has the functions of the language and no values. What is
// wrong is reported with the plan.
func (sc *Scope) Inside(files *source.Files) *Scope {
	inner := &Scope{Diags: sc.Diags, Files: files, Module: sc.Module, ModuleDigest: sc.ModuleDigest, env: sc.env,
		contents: sc.contents, templates: map[string]hclsyntax.Expression{}, texts: map[string]fileText{}}
	inner.Ctx = &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: inner.Functions()}
	return inner
}

// ModuleVariables evaluates the variables of a module, and makes them known as var.NAME.
func (sc *Scope) ModuleVariables(spec *Spec, blocks []*hcl.Block, in ModuleInputs, refs []source.Reference) {
	g := &givenValues{module: &in, values: map[string]given{}}
	for _, b := range blocks {
		g.names = append(g.names, b.Labels[0])
	}
	for _, n := range slices.Sorted(maps.Keys(in.Values)) {
		v := in.Values[n]
		if !slices.Contains(g.names, n) {
			sc.Fail(v.Key, "unknown input", "The module %s: %s", in.Module, UnknownName("variable", n, g.names))
			continue
		}
		g.values[n] = given{value: v.Value, at: v.At, from: "module " + in.Module}
	}
	sc.variables(spec, blocks, g, refs)
}
