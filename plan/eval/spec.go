package eval

import (
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Spec describes a block of the language. Blocks are decoded with these specs, so that a
// reference generated from them cannot go stale.
type Spec struct {
	Name   string
	Labels []string
	Doc    string
	Attrs  []Attr
	Blocks []*Spec
	Open   bool // takes any attribute: locals
	// One: the block may appear only once in its parent.
	One bool
	// Kinds are the specs by the first label; nil if every label has the same spec.
	Kinds map[string]*Spec
}

// Kind returns the spec for the first label of a block. An unknown label is reported; then it
// is nil.
func (sc *Scope) Kind(s *Spec, b *hcl.Block) *Spec {
	k := s.Kinds[b.Labels[0]]
	if k == nil {
		sc.Fail(b.LabelRanges[0], "unknown kind", "%s", UnknownName(s.Name, b.Labels[0], slices.Sorted(maps.Keys(s.Kinds))))
	}
	return k
}

// Attr describes one argument of a block.
type Attr struct {
	Name     string
	Typ      cty.Type
	Required bool
	Static   bool // read as written (a reference, a type), not evaluated with the others
	Empty    bool // "" is a value like any other
	Secret   bool // it may be sensitive
	Doc      string
}

// Title names a block for people: connection "ssh".
func (s *Spec) Title(b *hcl.Block) string {
	if len(b.Labels) == 0 {
		return s.Name
	}
	return s.Name + " " + strconv.Quote(b.Labels[0])
}

// Attr returns the argument of that name.
func (s *Spec) Attr(name string) (Attr, bool) {
	for _, a := range s.Attrs {
		if a.Name == name {
			return a, true
		}
	}
	return Attr{}, false
}

// Schema returns the schema for HCL. Missing arguments are reported by Section.
func (s *Spec) Schema() *hcl.BodySchema {
	out := &hcl.BodySchema{}
	for _, a := range s.Attrs {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, b := range s.Blocks {
		out.Blocks = append(out.Blocks, hcl.BlockHeaderSchema{Type: b.Name, LabelNames: b.Labels})
	}
	return out
}

// Types of arguments.
var (
	Strings = cty.List(cty.String)
	StrMap  = cty.Map(cty.String)
)

// Child returns the spec of a block inside this one.
func (s *Spec) Child(name string) *Spec {
	for _, b := range s.Blocks {
		if b.Name == name {
			return b
		}
	}
	panic("plan: no block " + name + " in " + s.Name)
}

// dynamic is the type of blocks that stand for others: one for each element of their for_each.
const dynamic = "dynamic"
