package eval

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Section is one block, decoded by its spec and evaluated. Getters return the zero value for
// what is not there or was reported; Has reports whether something is written at all. A null
// argument counts as not written.
type Section struct {
	Scope     *Scope
	Spec      *Spec
	Block     *hcl.Block
	Attrs     hcl.Attributes
	Values    map[string]cty.Value
	Sensitive map[string]bool // those that are sensitive
	Blocks    hcl.Blocks
	OK        bool // nothing in it was wrong, nor what its arguments depend on
}

// Section decodes a block and evaluates its arguments, except static ones.
func (sc *Scope) Section(spec *Spec, b *hcl.Block, ctx *hcl.EvalContext) *Section {
	before := sc.Errors()
	wrong := false // an argument has no value, and why was reported, if elsewhere
	content := sc.content(spec, b, ctx)
	sc.Extend(content.wrong)
	// A section leaves out arguments that are null.
	s := &Section{Scope: sc, Spec: spec, Block: b, Attrs: maps.Clone(content.attrs), Blocks: content.blocks,
		Values: map[string]cty.Value{}, Sensitive: map[string]bool{}}
	for _, a := range spec.Attrs {
		at := content.attrs[a.Name]
		if at == nil {
			if a.Required && !s.Misspelt(a.Name) {
				sc.Fail(b.DefRange, "missing argument", "The %s block needs the argument %q%s", spec.Title(b), a.Name,
					Explain(a.Doc))
			}
			continue
		}
		if a.Static {
			continue
		}
		switch v, secret, o := sc.Evaluate(at.Expr, ctx, a.Name, a.Typ, Allow{Sensitive: a.Secret}); {
		case o == IsNull && a.Required:
			sc.Fail(at.Expr.Range(), "missing value", "The argument %q is null here, and the %s block needs it%s", a.Name,
				spec.Title(b), Explain(a.Doc))
		case o == IsValue && a.Typ == cty.String && v.AsString() == "" && !a.Empty:
			if a.Required {
				sc.Fail(at.Expr.Range(), "missing value", "The argument %q is empty, and the %s block needs it%s", a.Name,
					spec.Title(b), Explain(a.Doc))
				continue
			}
			sc.Fail(at.Expr.Range(), "missing value",
				"The argument %q is empty. Leave it out, or let it be null, where there is nothing to say.", a.Name)
		case o == IsNull:
			delete(s.Attrs, a.Name)
		case o == IsWrong:
			wrong = true
		case o == IsValue:
			s.Values[a.Name] = v
			s.Sensitive[a.Name] = secret
		}
	}
	first := map[string]bool{}
	for _, inner := range spec.Blocks {
		for _, b := range content.blocks.OfType(inner.Name) {
			if inner.One && first[inner.Name] {
				sc.Fail(b.DefRange, "duplicate block", "A %s block has one %s block. Remove the others.", spec.Name, inner.Name)
			}
			first[inner.Name] = true
		}
	}
	s.OK = !wrong && !content.wrong.HasErrors() && sc.Errors() == before
	return s
}

// Misspelt reports whether an unknown name in the block may be a misspelling of this one.
func (s *Section) Misspelt(name string) bool {
	attrs, _ := s.Block.Body.JustAttributes()
	for _, n := range slices.Sorted(maps.Keys(attrs)) {
		if _, known := s.Spec.Attr(n); !known && DidYouMean(n, []string{name}) != "" {
			return true
		}
	}
	return false
}

// Explain returns the end of a sentence: what an argument is.
func Explain(doc string) string {
	if doc == "" {
		return "."
	}
	return ": " + doc + "."
}

// Has reports whether an argument is written, rightly or not.
func (s *Section) Has(name string) bool { return s.Attrs[name] != nil }

// At is where an argument's value stands, or the block's head.
func (s *Section) At(name string) hcl.Range {
	if a := s.Attrs[name]; a != nil {
		return a.Expr.Range()
	}
	return s.Block.DefRange
}

// AtIndex is where an element of a list stands, or the whole argument.
func (s *Section) AtIndex(name string, i int) hcl.Range {
	if a := s.Attrs[name]; a != nil {
		if list, diags := hcl.ExprList(a.Expr); !diags.HasErrors() && i < len(list) {
			return list[i].Range()
		}
	}
	return s.At(name)
}

// AtKey is where an element of a map stands, or the whole argument.
func (s *Section) AtKey(name, key string) hcl.Range {
	if a := s.Attrs[name]; a != nil {
		pairs, diags := hcl.ExprMap(a.Expr)
		for _, p := range pairs {
			if k, list := p.Key.Value(nil); !diags.HasErrors() && !list.HasErrors() && k.Type() == cty.String && k.IsKnown() &&
				!k.IsNull() && k.AsString() == key {
				return hcl.RangeBetween(p.Key.Range(), p.Value.Range())
			}
		}
	}
	return s.At(name)
}

// Fail reports an error of an argument.
func (s *Section) Fail(name, summary, detail string, args ...any) {
	s.OK = false
	s.Scope.Fail(s.At(name), summary, detail, args...)
}

// FailAt is Fail for a place inside the block.
func (s *Section) FailAt(at hcl.Range, summary, detail string, args ...any) {
	s.OK = false
	s.Scope.Fail(at, summary, detail, args...)
}

// Str is a string argument; "" if it is not given or wrong.
func (s *Section) Str(name string) string {
	if v, ok := s.Values[name]; ok {
		return v.AsString()
	}
	return ""
}

// StrOr is Str with a default for an argument that is not written. One that is written and
// wrong, if only its name, is "".
func (s *Section) StrOr(name, fallback string) string {
	if s.Has(name) || s.Misspelt(name) {
		return s.Str(name)
	}
	return fallback
}

// Bool is a bool argument; false if it is not given or wrong.
func (s *Section) Bool(name string) bool {
	v, ok := s.Values[name]
	return ok && v.True()
}

// Int is a number argument between least and most, or fallback.
func (s *Section) Int(name string, least, most, fallback int64) int64 {
	v, ok := s.Values[name]
	if !ok {
		return fallback
	}
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < least || n > most {
		s.Fail(name, "number out of range", "The argument %q takes a whole number from %d to %d.", name, least, most)
		return fallback
	}
	return n
}

// Duration is a duration between least and most, or fallback.
func (s *Section) Duration(name string, least, most, fallback time.Duration) time.Duration {
	text := s.Str(name)
	if text == "" {
		if _, given := s.Values[name]; !given {
			return fallback
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.Fail(name, "invalid duration",
			"%q is not a duration. Write a number with its unit, for example \"90s\", \"15m\" or \"1h30m\".", text)
		return fallback
	}
	if d < least || d > most {
		s.Fail(name, "duration out of range", "The argument %q takes a duration from %s to %s.", name, short(least),
			short(most))
		return fallback
	}
	return d
}

// Strs is a list of strings.
func (s *Section) Strs(name string) []string {
	v, ok := s.Values[name]
	if !ok {
		return nil
	}
	var out []string
	for i, it := 0, v.ElementIterator(); it.Next(); i++ {
		_, e := it.Element()
		if e.IsNull() {
			s.OK = false
			s.Scope.Fail(s.AtIndex(name, i), "missing value", "The argument %q holds a null element.", name)
			continue
		}
		out = append(out, e.AsString())
	}
	return out
}

// StrMap is a map of strings.
func (s *Section) StrMap(name string) map[string]string {
	v, ok := s.Values[name]
	if !ok {
		return nil
	}
	out := map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if e.IsNull() {
			s.OK = false
			s.Scope.Fail(s.AtKey(name, k.AsString()), "missing value", "The argument %q has no value for %q.", name,
				k.AsString())
			continue
		}
		out[k.AsString()] = e.AsString()
	}
	return out
}

// Object is an argument that is an object or a map, as it would be read from JSON;
// because says why it must be one.
func (s *Section) Object(name, because string) map[string]any {
	v, given := s.Values[name]
	if !given {
		return nil
	}
	if t := v.Type(); !t.IsObjectType() && !t.IsMapType() {
		s.Fail(name, "wrong type", "The argument %q wants an object, as %s: %s = { ... }; this is %s.", name, because, name,
			friendly(v.Type()))
		return nil
	}
	out, err := AsJSON(v)
	if err != nil {
		s.Fail(name, "wrong type", "The argument %q holds what a configuration file cannot: %s.", name, err)
		return nil
	}
	return out
}

// AsJSON is an object or a map as it would be read from JSON.
func AsJSON(v cty.Value) (map[string]any, error) {
	var out map[string]any
	text, err := ctyjson.Marshal(v, v.Type())
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// short writes a duration without trailing zero units: 15m, not 15m0s.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d >= time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return d.String()
}
