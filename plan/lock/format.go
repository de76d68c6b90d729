package lock

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

const head = `# Written by 'nodejoin lock'. Keep it beside the plan, in version control; do not edit it.

`

// Format returns the text of the lock: the same for the same entries, in any order and on any machine.
func (f *File) Format() []byte {
	sorted := &File{Entries: slices.Clone(f.Entries), Images: slices.Clone(f.Images), Modules: slices.Clone(f.Modules)}
	sorted.Sort()
	out := hclwrite.NewEmptyFile()
	out.Body().SetAttributeValue("format", cty.NumberIntVal(format))
	for _, e := range sorted.Entries {
		out.Body().AppendNewline()
		b := out.Body().AppendNewBlock("artifact", []string{e.Name, e.Platform}).Body()
		for _, a := range []struct{ name, value string }{{"version", e.Version}, {"address", e.Address}} {
			if a.value != "" {
				b.SetAttributeValue(a.name, cty.StringVal(a.value))
			}
		}
		b.SetAttributeValue("size", cty.NumberIntVal(e.Size))
		for _, a := range []struct{ name, value string }{
			{"sha256", e.SHA256}, {"sha512", e.SHA512}, {"verified", e.Verified}, {"checksum", e.Checksum},
			{"signer", e.Signer}, {"issuer", e.Issuer}, {"bundle", e.Bundle},
		} {
			if a.value != "" {
				b.SetAttributeValue(a.name, cty.StringVal(a.value))
			}
		}
	}
	for _, i := range sorted.Images {
		i.format(out.Body())
	}
	for _, m := range sorted.Modules {
		m.format(out.Body())
	}
	return append([]byte(head), hclwrite.Format(out.Bytes())...)
}
