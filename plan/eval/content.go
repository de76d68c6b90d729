package eval

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

func (sc *Scope) content(spec *Spec, b *hcl.Block, ctx *hcl.EvalContext) *content {
	if have := sc.contents[b]; have != nil {
		return have
	}
	if hasDynamic(b.Body) {
		return sc.dynamicContent(spec, b, ctx)
	}
	body, list := b.Body.Content(spec.Schema())
	out := &content{attrs: body.Attributes, blocks: slices.Concat(body.Blocks, MisspeltBlocks(b.Body, spec)),
		wrong: ClarifyBody(list, spec)}
	sc.contents[b] = out
	return out
}

// ClarifyBody adds to diagnostics of unknown names what the block takes.
func ClarifyBody(list hcl.Diagnostics, spec *Spec) hcl.Diagnostics {
	for _, g := range list {
		if strings.Contains(g.Detail, "Did you mean") {
			continue
		}
		var names []string
		switch g.Summary {
		case "Unsupported argument":
			for _, a := range spec.Attrs {
				names = append(names, a.Name)
			}
		case "Unsupported block type":
			for _, b := range spec.Blocks {
				names = append(names, b.Name)
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
			g.Detail += is + strings.ReplaceAll(OneOf(names), " or ", " and ") + "."
		}
	}
	return list
}

// hasDynamic reports whether a block is made of dynamic blocks, or is itself in one.
func hasDynamic(body hcl.Body) bool {
	native, ok := body.(*hclsyntax.Body)
	return ok && slices.ContainsFunc(native.Blocks, func(b *hclsyntax.Block) bool {
		return b.Type == dynamic || hasDynamic(b.Body)
	})
}

// dynamicContent is content of a block that has dynamic blocks. It differs with the context.
func (sc *Scope) dynamicContent(spec *Spec, b *hcl.Block, ctx *hcl.EvalContext) *content {
	at := b.DefRange
	sc.At.Store(&at)
	body, list := dynblock.Expand(b.Body, ctx, dynblock.OptCheckForEach(sc.checkDynamic)).Content(spec.Schema())
	out := &content{attrs: body.Attributes, blocks: slices.Concat(body.Blocks, MisspeltBlocks(b.Body, spec))}
	for _, g := range ClarifyBody(list, spec) {
		one := hcl.Diagnostics{g}
		if g.Expression != nil {
			one = sc.clarify(one)
		}
		out.wrong = append(out.wrong, one...)
	}
	return out
}

// checkDynamic judges the for_each of a dynamic block.
func (sc *Scope) checkDynamic(v cty.Value, e hcl.Expression, _ *hcl.EvalContext) hcl.Diagnostics {
	wrong := func(summary, detail string) hcl.Diagnostics {
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: e.Range().Ptr()}}
	}
	plain, marks := v.Unmark()
	_, secret := marks[sensitive]
	_, isLater := marks[later]
	_, isOfNodes := marks[ofNodes]
	switch {
	case secret:
		return wrong("sensitive value", "The number of blocks that a dynamic block makes is shown in plans and logs, so "+
			"its \"for_each\" cannot be sensitive. Values in it can.")
	case isOfNodes:
		return wrong("value known too late", "The argument \"for_each\" depends on an output of a module that names nodes, "+
			"which has no value until all nodes are read.")
	case isLater:
		return wrong("value known too late", "The argument \"for_each\" is needed while the plan is compiled, and this is "+
			"known only when the node is joined.")
	case plain.IsKnown() && plain.IsNull():
		return wrong("missing value", "The argument \"for_each\" is null here. "+
			"For no block at all let it be an empty list, [].")
	case !plain.CanIterateElements() && plain.Type() != cty.DynamicPseudoType:
		return wrong("wrong type", "The argument \"for_each\" wants a list, a set or a map, and this is "+
			friendly(plain.Type())+".")
	case plain.IsKnown() && plain.LengthInt() > MaxInstances:
		return wrong("too many elements", "The argument \"for_each\" has more elements than a block can have.")
	}
	return nil
}
