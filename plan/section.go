package plan

import (
	"math/big"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// section is one block, decoded by its spec and evaluated. Getters give the zero
// value for what is not there or was reported as wrong; has tells that something
// is written at all.
type section struct {
	c      *compiler
	spec   *blockSpec
	block  *hcl.Block
	attrs  hcl.Attributes
	vals   map[string]cty.Value
	blocks hcl.Blocks
	ok     bool // nothing in it was wrong
}

// section decodes a block and evaluates its arguments, except static ones.
func (c *compiler) section(spec *blockSpec, b *hcl.Block, ctx *hcl.EvalContext) *section {
	before := c.errors()
	content, list := b.Body.Content(spec.schema())
	c.diags.add(list)
	s := &section{c: c, spec: spec, block: b, attrs: content.Attributes, blocks: content.Blocks, vals: map[string]cty.Value{}}
	for _, a := range spec.attrs {
		at := content.Attributes[a.name]
		if at == nil || a.static {
			continue
		}
		if v, _, ok := c.evaluate(at.Expr, ctx, a.name, a.typ, allow{}); ok {
			s.vals[a.name] = v
		}
	}
	first := map[string]bool{}
	for _, inner := range spec.blocks {
		for _, b := range content.Blocks.OfType(inner.name) {
			if inner.one && first[inner.name] {
				c.diags.fail(b.DefRange, "duplicate block", "A %s block has one %s block. Remove the others.", spec.name, inner.name)
			}
			first[inner.name] = true
		}
	}
	s.ok = !list.HasErrors() && c.errors() == before
	return s
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
// written and wrong is "".
func (s *section) or(name, fallback string) string {
	if s.has(name) {
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
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() {
			s.fail(name, "missing value", "The argument %q holds a null element.", name)
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
			s.fail(name, "missing value", "The argument %q has no value for %q.", name, k.AsString())
			continue
		}
		out[k.AsString()] = e.AsString()
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
