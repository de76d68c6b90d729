package plan

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// meant gives the blocks of a body that HCL leaves out for a misspelt type or a
// wrong number of labels, as what they seem to be meant as. What is wrong with their
// heads was reported. Judged as what they are meant as, they show their own mistakes,
// and nothing is reported for want of them.
func meant(body hcl.Body, spec *blockSpec) hcl.Blocks {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	var out hcl.Blocks
	for _, b := range native.Blocks {
		inner := spec.meantBy(b.Type)
		if inner == nil || inner.name == b.Type && len(inner.labels) == len(b.Labels) {
			continue
		}
		// A label that is missing is a name or a kind that nobody knows, except for
		// the one block of a type whose name says nothing to others.
		missing := len(inner.labels) - len(b.Labels)
		if missing > 0 && (!inner.one || inner.kinds != nil) {
			continue
		}
		block := *b.AsHCLBlock()
		block.Type = inner.name
		for range missing {
			block.Labels, block.LabelRanges = append(block.Labels, ""), append(block.LabelRanges, block.DefRange)
		}
		block.Labels, block.LabelRanges = block.Labels[:len(inner.labels)], block.LabelRanges[:len(inner.labels)]
		out = append(out, &block)
	}
	return out
}

// meantBy is the block that a type means, which may be misspelt; nil = none.
func (s *blockSpec) meantBy(name string) *blockSpec {
	best, bestDistance := (*blockSpec)(nil), 0
	for _, b := range s.blocks {
		switch d, near := distance(name, b.name); {
		case d == 0:
			return b
		case near && (best == nil || d < bestDistance):
			best, bestDistance = b, d
		}
	}
	return best
}

// lost tells whether a body holds a block of a type, misspelt or not: when it has
// none that can be judged, that was reported.
func lost(body hcl.Body, spec *blockSpec, name string) bool {
	native, ok := body.(*hclsyntax.Body)
	return ok && slices.ContainsFunc(native.Blocks, func(b *hclsyntax.Block) bool {
		m := spec.meantBy(b.Type)
		return m != nil && m.name == name
	})
}
