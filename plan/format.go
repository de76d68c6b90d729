package plan

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"nodejoin/plan/source"
)

// VarSuffix ends the names of files of variables' values.
const VarSuffix = ".joinvars"

// byteOrderMark of UTF-8; HCL refuses it, and it is not part of the text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Formats reports whether Format is for files of this name.
func Formats(name string) bool {
	return strings.HasSuffix(name, source.Suffix) || strings.HasSuffix(name, VarSuffix)
}

// Format returns the text of a plan file or a file of values in its canonical form: indentation
// and the spaces around = by HCL's rules, no byte order mark, LF at the end of lines, one at
// the end of the file. Nothing else is changed, and formatting twice is formatting once. For
// text that is not HCL the result is nil, and the diagnostics, in file name, say why.
func Format(name string, src []byte) ([]byte, hcl.Diagnostics) {
	if g := source.NotText(src, name); g != nil {
		return nil, hcl.Diagnostics{g}
	}
	text := bytes.TrimPrefix(src, byteOrderMark)
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if _, diags := source.ParseFile(text, name); diags.HasErrors() {
		return nil, diags
	}
	out := hclwrite.Format(text)
	if out = bytes.TrimRight(out, "\n"); len(out) > 0 {
		out = append(out, '\n')
	}
	return out, nil
}
