package source

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// The parser and the evaluator are recursive, and a program that exhausts its stack ends at
// once. So every text is measured before it is parsed.
const (
	// MaxNesting bounds brackets, templates and the directives of templates inside each other.
	MaxNesting = 100
	// maxOperators bounds the operators and indexes of one expression, not counting
	// those in brackets of its own.
	maxOperators = 1000
	// maxDigits bounds the digits of a number.
	maxDigits = 1000
)

// ParseFile parses a file of a plan or of values.
func ParseFile(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	if g := tooMuch(tokens); g != nil {
		return &hcl.File{Body: hcl.EmptyBody(), Bytes: src}, hcl.Diagnostics{g}
	}
	f, list := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	return f, clarifySyntax(list)
}

// clarifySyntax says how to write Windows paths; of several wrong escapes on a line it reports
// the first.
func clarifySyntax(list hcl.Diagnostics) hcl.Diagnostics {
	line := 0
	return slices.DeleteFunc(list, func(g *hcl.Diagnostic) bool {
		switch g.Summary {
		case "Invalid escape sequence":
			again := g.Subject.Start.Line == line
			line = g.Subject.Start.Line
			g.Detail = "In quotes a backslash begins an escape. Where it stands for itself, as in a path, write it twice: " +
				"\"C:\\\\k\\\\README.txt\"."
			return again
		case "Invalid number literal":
			g.Detail = "This is not a number. A text stands in quotes, an address or a version, too: \"10.244.0.0/16\"."
		}
		return false
	})
}

// ParseJSON parses a file of values in JSON.
func ParseJSON(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	if at, deep := JSONTooDeep(src); deep {
		return &hcl.File{Body: hcl.EmptyBody(), Bytes: src}, hcl.Diagnostics{deeper(hcl.Range{Filename: name, Start: at,
			End: hcl.Pos{Line: at.Line, Column: at.Column + 1, Byte: at.Byte + 1}})}
	}
	return json.Parse(src, name)
}

// ParseTemplate parses the text of a template.
func ParseTemplate(src []byte, name string, place func(hcl.Range) string) (hclsyntax.Expression, hcl.Diagnostics) {
	tokens, _ := hclsyntax.LexTemplate(src, name, hcl.InitialPos)
	if g := tooMuch(tokens); g != nil {
		return nil, hcl.Diagnostics{g}
	}
	e, list := hclsyntax.ParseTemplate(src, name, hcl.InitialPos)
	if !list.HasErrors() {
		list = append(list, DuplicateKeys(e, place)...)
	}
	return e, list
}

// ParseExpression parses an expression that stands alone.
func ParseExpression(src []byte, name string, place func(hcl.Range) string) (hclsyntax.Expression, hcl.Diagnostics) {
	tokens, _ := hclsyntax.LexExpression(src, name, hcl.InitialPos)
	if g := tooMuch(tokens); g != nil {
		return nil, hcl.Diagnostics{g}
	}
	e, list := hclsyntax.ParseExpression(src, name, hcl.InitialPos)
	if !list.HasErrors() {
		list = append(list, DuplicateKeys(e, place)...)
	}
	return e, list
}

var (
	opening = []hclsyntax.TokenType{hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
		hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
		hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl}
	closing = []hclsyntax.TokenType{hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
		hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc,
		hclsyntax.TokenTemplateSeqEnd}
	operators = []hclsyntax.TokenType{hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar,
		hclsyntax.TokenSlash, hclsyntax.TokenPercent,
		hclsyntax.TokenBang, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
		hclsyntax.TokenLessThan,
		hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenQuestion,
		hclsyntax.TokenColon, hclsyntax.TokenDoubleColon}
)

// tooMuch finds the place at which a text becomes too deep or too long to be parsed; nil if it
// does not.
func tooMuch(tokens hclsyntax.Tokens) *hcl.Diagnostic {
	row := []int{0} // operators so far, of each bracket that is open
	directives := 0
	after := func(i int) hclsyntax.TokenType {
		if i+1 < len(tokens) {
			return tokens[i+1].Type
		}
		return hclsyntax.TokenEOF
	}
	joins := func(t hclsyntax.TokenType) bool { return slices.Contains(operators, t) }
	for i, t := range tokens {
		last := len(row) - 1
		switch {
		case slices.Contains(opening, t.Type):
			if t.Type == hclsyntax.TokenOBrack {
				row[last]++ // it may be an index
			}
			row = append(row, 0)
		case slices.Contains(closing, t.Type):
			if last > 0 {
				row = row[:last]
			}
		case joins(t.Type):
			row[last]++
		case t.Type == hclsyntax.TokenComma:
			row[last] = 0
		case t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenComment:
			// Inside some brackets the parser sees no ends of lines.
			if next := after(i); !joins(next) && next != hclsyntax.TokenOBrack && next != hclsyntax.TokenNewline &&
				next != hclsyntax.TokenComment && (i == 0 || !joins(tokens[i-1].Type)) {
				row[last] = 0
			}
		case t.Type == hclsyntax.TokenIdent && i > 0 && tokens[i-1].Type == hclsyntax.TokenTemplateControl:
			switch string(t.Bytes) {
			case "if", "for":
				directives++
			case "endif", "endfor":
				directives--
			}
		}
		switch {
		case len(row)+max(directives, 0) > MaxNesting:
			return deeper(t.Range)
		case t.Type == hclsyntax.TokenNumberLit && hugeNumber(t.Bytes):
			return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "number out of range", Subject: t.Range.Ptr(),
				Detail: fmt.Sprintf("A number may have at most %d digits before or after its point.", maxDigits)}
		case row[len(row)-1] > maxOperators:
			return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "expression too long", Subject: t.Range.Ptr(),
				Detail: fmt.Sprintf("This expression has more than %d operators and indexes. Give parts of it names of their "+
					"own in a locals block.", maxOperators)}
		}
	}
	return nil
}

// hugeNumber reports a number literal that would take much memory and time to write out.
func hugeNumber(literal []byte) bool {
	mantissa, exponent, _ := bytes.Cut(bytes.ToLower(literal), []byte("e"))
	n, err := strconv.Atoi(string(exponent))
	return len(mantissa) > maxDigits || len(exponent) > 0 && (err != nil || n > maxDigits || n < -maxDigits)
}

func deeper(at hcl.Range) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "nested too deep", Subject: &at,
		Detail: fmt.Sprintf("More than %d brackets and templates are open here, each inside the one before; nothing of "+
			"the text was judged. Give what is inside a name of its own in a locals block.", MaxNesting)}
}

// JSONTooDeep finds the place at which a JSON text becomes too deep to be read.
func JSONTooDeep(src []byte) (at hcl.Pos, deep bool) {
	at = hcl.InitialPos
	depth, quoted, escaped := 0, false, false
	for _, b := range src {
		switch {
		case escaped:
			escaped = false
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			if depth++; depth > MaxNesting {
				return at, true
			}
		case b == ']' || b == '}':
			depth--
		}
		at.Byte++
		if at.Column++; b == '\n' {
			at.Line, at.Column = at.Line+1, 1
		}
	}
	return at, false
}

// DuplicateKeys finds keys that an object has twice: the last would win silently. Computed keys
// are not checked.
func DuplicateKeys(e any, place func(hcl.Range) string) (out hcl.Diagnostics) {
	node, ok := e.(hclsyntax.Node)
	if !ok {
		return nil // JSON
	}
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		o, ok := n.(*hclsyntax.ObjectConsExpr)
		if !ok {
			return nil
		}
		first := map[string]hcl.Range{}
		for _, item := range o.Items {
			key, ok := literalKey(item.KeyExpr)
			if !ok {
				continue
			}
			at := item.KeyExpr.Range()
			if before, again := first[key]; again {
				out = append(out, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "duplicate key", Subject: &at,
					Detail: fmt.Sprintf("This object has the key %q at %s already, and the last one would win. Remove one of them.",
						key, place(before))})
				continue
			}
			first[key] = at
		}
		return nil
	})
	return out
}

func literalKey(e hclsyntax.Expression) (string, bool) {
	v, list := e.Value(nil)
	if list.HasErrors() || !v.IsKnown() || v.IsNull() {
		return "", false
	}
	v, err := convert.Convert(v, cty.String)
	if err != nil || v.IsNull() {
		return "", false
	}
	return v.AsString(), true
}
