package eval

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// OfNodes is the value of a module's output that names nodes until the nodes are read.
var OfNodes = cty.DynamicVal.Mark(ofNodes)

// dependsOnNodes reports whether something in a value is OfNodes, or comes from it.
func dependsOnNodes(v cty.Value) bool {
	_, marks := v.UnmarkDeep()
	_, ok := marks[ofNodes]
	return ok
}

// NeedsNodes reports whether an argument of an output or a check names nodes, or an output of a module that does.
func (sc *Scope) NeedsNodes(b *hcl.Block) bool {
	attrs, _ := b.Body.JustAttributes()
	for _, a := range attrs {
		if namesNodes(a.Expr, sc.Ctx) || slices.ContainsFunc(a.Expr.Variables(), func(t hcl.Traversal) bool {
			return t.RootName() == "node"
		}) {
			return true
		}
	}
	return false
}

// namesNodes reports whether an expression names a value that depends on nodes.
func namesNodes(e hcl.Expression, ctx *hcl.EvalContext) bool {
	for _, t := range e.Variables() {
		if v, list := t.TraverseAbs(ctx); !list.HasErrors() && dependsOnNodes(v) {
			return true
		}
	}
	return false
}

// beforeNodes reports a value that was needed before the nodes were read.
func (sc *Scope) beforeNodes(e hcl.Expression, what string) {
	sc.Fail(e.Range(), "value known too late", "%s depends on an output of a module that names nodes, which has no "+
		"value until all nodes are read. Such outputs can be named in steps, outputs and checks.", what)
}

// ModuleOutputs are the outputs of one module, or of one element of its for_each.
type ModuleOutputs struct {
	Module string
	Each   bool   // it has for_each
	Key    string // of the element
	Values map[string]cty.Value
}

// SetOutputs replaces the outputs of modules.
func (sc *Scope) SetOutputs(list []ModuleOutputs) {
	if len(list) == 0 {
		return
	}
	modules := sc.Ctx.Variables["module"].AsValueMap()
	elements := map[string]map[string]cty.Value{}
	for _, o := range list {
		before := modules[o.Module]
		switch {
		case before == cty.NilVal || !before.IsKnown():
			continue // it is wrong, which was reported
		case !o.Each:
			modules[o.Module] = cty.ObjectVal(o.Values)
			continue
		case elements[o.Module] == nil:
			elements[o.Module] = before.AsValueMap()
		}
		elements[o.Module][o.Key] = cty.ObjectVal(o.Values)
	}
	for name, of := range elements {
		modules[name] = cty.ObjectVal(of)
	}
	sc.Ctx.Variables["module"] = cty.ObjectVal(modules)
}
