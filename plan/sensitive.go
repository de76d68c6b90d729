package plan

import (
	"bytes"

	"github.com/zclconf/go-cty/cty"
)

// Sensitive reports whether the value of a variable must not be kept or shown: the plan marks
// it as sensitive, or has no such variable.
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

// Shown returns the text of one of Files without the defaults of sensitive variables.
func (p *Plan) Shown(name string) []byte {
	f := p.Files()[name]
	if f == nil {
		return nil
	}
	out := bytes.Clone(f.Bytes)
	for _, b := range p.blocks["variable"] {
		if b.DefRange.Filename != name || !p.Sensitive(b.Labels[0]) {
			continue
		}
		attrs, _ := b.Body.JustAttributes()
		if a := attrs["default"]; a != nil {
			r := a.Expr.Range()
			// Of the same length, so that later positions stay valid.
			for i := r.Start.Byte; i < r.End.Byte && i < len(out); i++ {
				if out[i] != '\n' {
					out[i] = '*'
				}
			}
		}
	}
	return out
}
