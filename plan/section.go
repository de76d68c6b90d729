package plan

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// section is one block, decoded by its spec and evaluated. Getters give the zero
// value for what is not there or was reported as wrong; has tells that something
// is written at all. An argument that is null is as if it were not written.
type section struct {
	c      *compiler
	spec   *blockSpec
	block  *hcl.Block
	attrs  hcl.Attributes
	vals   map[string]cty.Value
	secret map[string]bool // those that are sensitive
	blocks hcl.Blocks
	ok     bool // nothing in it was wrong, nor what its arguments depend on
}

// section decodes a block and evaluates its arguments, except static ones.
func (c *compiler) section(spec *blockSpec, b *hcl.Block, ctx *hcl.EvalContext) *section {
	before := c.errors()
	wrong := false // an argument has no value, and why was reported, if elsewhere
	content := c.content(spec, b)
	c.diags.add(content.wrong)
	// A section leaves out arguments that are null.
	s := &section{c: c, spec: spec, block: b, attrs: maps.Clone(content.attrs), blocks: content.blocks, vals: map[string]cty.Value{}, secret: map[string]bool{}}
	for _, a := range spec.attrs {
		at := content.attrs[a.name]
		if at == nil {
			if a.required && !s.misspelt(a.name) {
				c.diags.fail(b.DefRange, "missing argument", "The %s block needs the argument %q%s", spec.title(b), a.name, explain(a.doc))
			}
			continue
		}
		if a.static {
			continue
		}
		switch v, secret, o := c.evaluate(at.Expr, ctx, a.name, a.typ, allow{sensitive: a.secret}); {
		case o == isNull && a.required:
			c.diags.fail(at.Expr.Range(), "missing value", "The argument %q is null here, and the %s block needs it%s", a.name, spec.title(b), explain(a.doc))
		case o == isValue && a.typ == cty.String && v.AsString() == "" && !a.empty:
			if a.required {
				c.diags.fail(at.Expr.Range(), "missing value", "The argument %q is empty, and the %s block needs it%s", a.name, spec.title(b), explain(a.doc))
				continue
			}
			c.diags.fail(at.Expr.Range(), "missing value", "The argument %q is empty. Leave it out, or let it be null, where there is nothing to say.", a.name)
		case o == isNull:
			delete(s.attrs, a.name)
		case o == isWrong:
			wrong = true
		case o == isValue:
			s.vals[a.name] = v
			s.secret[a.name] = secret
		}
	}
	first := map[string]bool{}
	for _, inner := range spec.blocks {
		for _, b := range content.blocks.OfType(inner.name) {
			if inner.one && first[inner.name] {
				c.diags.fail(b.DefRange, "duplicate block", "A %s block has one %s block. Remove the others.", spec.name, inner.name)
			}
			first[inner.name] = true
		}
	}
	s.ok = !wrong && !content.wrong.HasErrors() && c.errors() == before
	return s
}

// content is a block decoded by its spec. A block that is evaluated for many nodes
// is decoded once.
type content struct {
	attrs  hcl.Attributes
	blocks hcl.Blocks
	wrong  hcl.Diagnostics
}

func (c *compiler) content(spec *blockSpec, b *hcl.Block) *content {
	if have := c.contents[b]; have != nil {
		return have
	}
	body, list := b.Body.Content(spec.schema())
	out := &content{attrs: body.Attributes, blocks: slices.Concat(body.Blocks, meant(b.Body, spec)), wrong: clarifyBody(list, spec)}
	c.contents[b] = out
	return out
}

// misspelt tells whether a name that is written and unknown may mean this one.
func (s *section) misspelt(name string) bool {
	attrs, _ := s.block.Body.JustAttributes()
	for _, n := range sortedKeys(attrs) {
		if _, known := s.spec.attr(n); !known && didYouMean(n, []string{name}) != "" {
			return true
		}
	}
	return false
}

// explain ends a sentence with what an argument is.
func explain(doc string) string {
	if doc == "" {
		return "."
	}
	return ": " + doc + "."
}

// clarifyBody names what a block takes, where something else is written.
func clarifyBody(list hcl.Diagnostics, spec *blockSpec) hcl.Diagnostics {
	for _, g := range list {
		if strings.Contains(g.Detail, "Did you mean") {
			continue
		}
		var names []string
		switch g.Summary {
		case "Unsupported argument":
			for _, a := range spec.attrs {
				names = append(names, a.name)
			}
		case "Unsupported block type":
			for _, b := range spec.blocks {
				names = append(names, b.name)
			}
		default:
			continue
		}
		switch {
		case len(names) == 0 && g.Summary == "Unsupported argument":
			g.Detail += " None is."
		case len(names) > 0:
			is := " Possible are "
			if len(names) == 1 {
				is = " Possible is "
			}
			g.Detail += is + strings.ReplaceAll(oneOf(names), " or ", " and ") + "."
		}
	}
	return list
}

// errors counts the errors so far.
func (c *compiler) errors() int { return c.diags.errs }

func (s *section) has(name string) bool { return s.attrs[name] != nil }

// at is where an argument's value stands, or the block's head.
func (s *section) at(name string) hcl.Range {
	if a := s.attrs[name]; a != nil {
		return a.Expr.Range()
	}
	return s.block.DefRange
}

// atIndex is where an element of a list stands, or the whole argument.
func (s *section) atIndex(name string, i int) hcl.Range {
	if a := s.attrs[name]; a != nil {
		if list, diags := hcl.ExprList(a.Expr); !diags.HasErrors() && i < len(list) {
			return list[i].Range()
		}
	}
	return s.at(name)
}

// atKey is where an element of a map stands, or the whole argument.
func (s *section) atKey(name, key string) hcl.Range {
	if a := s.attrs[name]; a != nil {
		pairs, diags := hcl.ExprMap(a.Expr)
		for _, p := range pairs {
			if k, list := p.Key.Value(nil); !diags.HasErrors() && !list.HasErrors() && k.Type() == cty.String && k.IsKnown() && !k.IsNull() && k.AsString() == key {
				return hcl.RangeBetween(p.Key.Range(), p.Value.Range())
			}
		}
	}
	return s.at(name)
}

func (s *section) fail(name, summary, detail string, args ...any) {
	s.ok = false
	s.c.diags.fail(s.at(name), summary, detail, args...)
}

func (s *section) str(name string) string {
	if v, ok := s.vals[name]; ok {
		return v.AsString()
	}
	return ""
}

// or is a string argument or its default where it is not written. One that is
// written and wrong, if only its name, is "".
func (s *section) or(name, fallback string) string {
	if s.has(name) || s.misspelt(name) {
		return s.str(name)
	}
	return fallback
}

func (s *section) flag(name string) bool {
	v, ok := s.vals[name]
	return ok && v.True()
}

// whole is a number argument between least and most, or fallback.
func (s *section) whole(name string, least, most, fallback int64) int64 {
	v, ok := s.vals[name]
	if !ok {
		return fallback
	}
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < least || n > most {
		s.fail(name, "number out of range", "The argument %q takes a whole number from %d to %d.", name, least, most)
		return fallback
	}
	return n
}

func (s *section) duration(name string, least, most, fallback time.Duration) time.Duration {
	text := s.str(name)
	if text == "" {
		if _, given := s.vals[name]; !given {
			return fallback
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.fail(name, "invalid duration", "%q is no duration. Write a number with its unit, for example \"90s\", \"15m\" or \"1h30m\".", text)
		return fallback
	}
	if d < least || d > most {
		s.fail(name, "duration out of range", "The argument %q takes a duration from %s to %s.", name, short(least), short(most))
		return fallback
	}
	return d
}

func (s *section) strs(name string) []string {
	v, ok := s.vals[name]
	if !ok {
		return nil
	}
	var out []string
	for i, it := 0, v.ElementIterator(); it.Next(); i++ {
		_, e := it.Element()
		if e.IsNull() {
			s.ok = false
			s.c.diags.fail(s.atIndex(name, i), "missing value", "The argument %q holds a null element.", name)
			continue
		}
		out = append(out, e.AsString())
	}
	return out
}

func (s *section) strMap(name string) map[string]string {
	v, ok := s.vals[name]
	if !ok {
		return nil
	}
	out := map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if e.IsNull() {
			s.ok = false
			s.c.diags.fail(s.atKey(name, k.AsString()), "missing value", "The argument %q has no value for %q.", name, k.AsString())
			continue
		}
		out[k.AsString()] = e.AsString()
	}
	return out
}

// object is an argument that is an object or a map, as it would be read from JSON;
// because says why it must be one.
func (s *section) object(name, because string) map[string]any {
	v, given := s.vals[name]
	if !given {
		return nil
	}
	if t := v.Type(); !t.IsObjectType() && !t.IsMapType() {
		s.fail(name, "wrong type", "The argument %q wants an object, as %s: %s = { ... }; this is %s.", name, because, name, friendly(v.Type()))
		return nil
	}
	var out map[string]any
	text, err := ctyjson.Marshal(v, v.Type())
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		s.fail(name, "wrong type", "The argument %q holds what a configuration file cannot: %s.", name, err)
		return nil
	}
	return out
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

func quote(s string) string { return strconv.Quote(s) }
