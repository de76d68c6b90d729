package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"nodejoin/plan/source"
)

// MaxData bounds what is read for one data block (bytes).
const MaxData = source.MaxFile

// Formats are those that Parse reads.
var Formats = []string{"json", "yaml", "csv"}

// Parse is the value of a text in one of Formats. An error has nothing of the text if hide is true.
func Parse(format, text string, hide bool) (cty.Value, error) {
	decode := map[string]function.Function{"json": jsonDecode, "yaml": yamlDecode, "csv": stdlib.CSVDecodeFunc}[format]
	var err error
	if !utf8.ValidString(text) {
		err = errors.New("it is not UTF-8 text")
	} else if format == "json" {
		err = jsonSyntax(text, hide)
	}
	if err != nil {
		return cty.NilVal, err
	}
	v, err := decode.Call([]cty.Value{cty.StringVal(text)})
	switch {
	case err != nil && hide:
		err = errors.New("the data is sensitive, so the reason is not shown")
	case err == nil && holdsRef(v):
		err = errors.New("it holds a NUL character, which no file, path or command line can hold")
	case err == nil:
		err = within(v)
	}
	return v, err
}

// jsonSyntax is the error for a text that is not JSON, with the place.
func jsonSyntax(text string, hide bool) error {
	var raw json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	line, column := 1, 0
	for _, r := range text[:min(int(syntax.Offset), len(text))] {
		if column++; r == '\n' {
			line, column = line+1, 0
		}
	}
	if hide {
		return fmt.Errorf("line %d, column %d", line, max(column, 1))
	}
	return fmt.Errorf("line %d, column %d: %w", line, max(column, 1), err)
}

// ValueDigest is the SHA-256 of a known value without marks, in hex. It is of the value in JSON with sorted keys, so
// that the order in which a program prints them does not count.
func ValueDigest(v cty.Value) (string, error) {
	b, err := ctyjson.Marshal(v, v.Type())
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// ReadText reads a text file that the plan names, once.
func (sc *Scope) ReadText(name string) (string, error) { return sc.read(name) }
