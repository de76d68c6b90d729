package plan

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Sensitive reports whether the value of a variable must not be kept or shown: the plan marks
// it as sensitive, or has no such variable.
func (p *Plan) Sensitive(name string) bool {
	for _, b := range p.blocks["variable"] {
		if b.Labels[0] == name {
			return sensitive(b.Body)
		}
	}
	return true
}

// sensitive reports whether a variable block says so, or may do so.
func sensitive(variable hcl.Body) bool {
	attrs, _ := variable.JustAttributes() // inner blocks are no attributes
	a := attrs["sensitive"]
	if a == nil {
		return false
	}
	v, diags := a.Expr.Value(nil)
	return diags.HasErrors() || v.Type() != cty.Bool || !v.IsKnown() || v.IsNull() || v.True()
}

// texts are the files of the plan and of its modules, by name.
func (p *Plan) texts() (out []Text) {
	for _, name := range slices.Sorted(maps.Keys(p.Files())) {
		if !IsFile(name) { // files of values may hold secrets
			continue
		}
		shown := strings.ReplaceAll(p.files.Shown(name), "../", "up/")
		if !filepath.IsLocal(filepath.FromSlash(shown)) { // on another drive
			shown = filepath.Base(name)
		}
		out = append(out, Text{Name: shown, Content: p.shown(name)})
	}
	return out
}

// shown is the text of one of Files without the defaults of sensitive variables.
func (p *Plan) shown(name string) []byte {
	f := p.Files()[name]
	out := bytes.Clone(f.Bytes)
	body, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	for _, b := range body.Blocks {
		a := b.Body.Attributes["default"]
		if b.Type != "variable" || a == nil || !sensitive(b.Body) {
			continue
		}
		// Of the same length, so that later positions stay valid.
		for i := a.Expr.Range().Start.Byte; i < a.Expr.Range().End.Byte && i < len(out); i++ {
			if out[i] != '\n' {
				out[i] = '*'
			}
		}
	}
	return out
}
