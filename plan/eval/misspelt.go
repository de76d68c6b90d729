package eval

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// MisspeltBlocks returns the blocks of a body that HCL leaves out because of a misspelt type or a wrong
// number of labels, with the type that was probably meant. Their heads were reported. Decoded
// like this, their own mistakes are found, and nothing is reported because they are missing.
func MisspeltBlocks(body hcl.Body, spec *Spec) hcl.Blocks {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	var out hcl.Blocks
	for _, b := range native.Blocks {
		inner := spec.blockLike(b.Type)
		if inner == nil || b.Type == dynamic || inner.Name == b.Type && len(inner.Labels) == len(b.Labels) {
			continue
		}
		// A missing label is an unknown name or kind, except in a block of which there is only
		// one and whose name nothing refers to.
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

// blockLike returns the block that a type, perhaps misspelt, stands for; nil = none.
func (s *Spec) blockLike(name string) *Spec {
	for _, b := range s.Blocks {
		if b.Name == name {
			return b
		}
	}
	best, bestDistance := (*Spec)(nil), 0
	for _, b := range s.Blocks {
		if d, near := distance(name, b.Name); near && (best == nil || d < bestDistance) {
			best, bestDistance = b, d
		}
	}
	return best
}

// Lost reports whether a body holds a block of a type, misspelt or not: if none of them can be
// decoded, that was reported.
func Lost(body hcl.Body, spec *Spec, name string) bool {
	native, ok := body.(*hclsyntax.Body)
	return ok && slices.ContainsFunc(native.Blocks, func(b *hclsyntax.Block) bool {
		written := b.Type
		if written == dynamic && len(b.Labels) > 0 {
			written = b.Labels[0]
		}
		m := spec.blockLike(written)
		return m != nil && m.Name == name
	})
}
