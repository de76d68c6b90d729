package eval

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Meant gives the blocks of a body that HCL leaves out for a misspelt type or a
// wrong number of labels, as what they seem to be meant as. What is wrong with their
// heads was reported. Judged as what they are meant as, they show their own mistakes,
// and nothing is reported for want of them.
func Meant(body hcl.Body, spec *Spec) hcl.Blocks {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	var out hcl.Blocks
	for _, b := range native.Blocks {
		inner := spec.meantBy(b.Type)
		if inner == nil || inner.Name == b.Type && len(inner.Labels) == len(b.Labels) {
			continue
		}
		// A label that is missing is a name or a kind that nobody knows, except for
		// the one block of a type whose name says nothing to others.
		missing := len(inner.Labels) - len(b.Labels)
		if missing > 0 && (!inner.One || inner.Kinds != nil) {
			continue
		}
		block := *b.AsHCLBlock()
		block.Type = inner.Name
		for range missing {
			block.Labels, block.LabelRanges = append(block.Labels, ""), append(block.LabelRanges, block.DefRange)
		}
		block.Labels, block.LabelRanges = block.Labels[:len(inner.Labels)], block.LabelRanges[:len(inner.Labels)]
		out = append(out, &block)
	}
	return out
}

// meantBy is the block that a type means, which may be misspelt; nil = none.
func (s *Spec) meantBy(name string) *Spec {
	best, bestDistance := (*Spec)(nil), 0
	for _, b := range s.Blocks {
		switch d, near := distance(name, b.Name); {
		case d == 0:
			return b
		case near && (best == nil || d < bestDistance):
			best, bestDistance = b, d
		}
	}
	return best
}

// Lost reports whether a body holds a block of a type, misspelt or not: when it has
// none that can be judged, that was reported.
func Lost(body hcl.Body, spec *Spec, name string) bool {
	native, ok := body.(*hclsyntax.Body)
	return ok && slices.ContainsFunc(native.Blocks, func(b *hclsyntax.Block) bool {
		m := spec.meantBy(b.Type)
		return m != nil && m.Name == name
	})
}
