package plan

import "github.com/zclconf/go-cty/cty"

// Sensitive tells whether the value of a variable must not be kept or shown: the
// plan marks it so, in whatever way, or has no such variable.
func (p *Plan) Sensitive(name string) bool {
	for _, b := range p.blocks["variable"] {
		if b.Labels[0] != name {
			continue
		}
		attrs, _ := b.Body.JustAttributes() // inner blocks are no attributes
		a := attrs["sensitive"]
		if a == nil {
			return false
		}
		v, diags := a.Expr.Value(nil)
		return diags.HasErrors() || v.Type() != cty.Bool || !v.IsKnown() || v.IsNull() || v.True()
	}
	return true
}
