package block

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

// StepBlock is a step block, not yet evaluated for a node.
type StepBlock struct {
	Block *hcl.Block
	Kind  *Kind
	Name  string
	on    map[*hcl.Block]bool // node blocks; nil = all
	// module is the address of the module that the block is in, whose nodes it is for; "" = it is in the plan, and for
	// those of modules too.
	module string
	scope  *eval.Scope
	// Evaluated for some node, so that everything wrong with it was found.
	Evaluated bool
	// OfNode: it mentions its node, so it may differ between nodes of one system.
	OfNode bool
}

// Step is a step block evaluated for one node and one element of its for_each.
type Step struct {
	*eval.Section
	Kind          *Kind
	Out           steps.Spec     // but for Args
	Args          map[string]any // of the kind
	Value         any            // the kind's argument struct with Args
	After, Before []string
	Makes         steps.Thing
	Refers        bool // some argument holds a reference
}

// decodeSteps reads those parts of the step blocks that do not depend on a node. nodes are the
// node blocks beside them; module is where they are, as StepBlock has it.
func decodeSteps(sc *eval.Scope, blocks, nodes []*hcl.Block, module string) []*StepBlock {
	var out []*StepBlock
	for _, b := range blocks {
		kind := KindSpecs()[b.Labels[0]]
		if instead, gone := replacedKinds[b.Labels[0]]; gone {
			sc.Fail(b.LabelRanges[0], "unknown kind", "There is no kind of step %q: %s.", b.Labels[0], instead)
			continue
		}
		if kind == nil {
			sc.Fail(b.LabelRanges[0], "unknown kind", "There is no kind of step %q.%s", b.Labels[0],
				cmp.Or(eval.DidYouMean(b.Labels[0], KindNames()), " There is "+strings.ReplaceAll(eval.OneOf(KindNames()), " or ",
					" and ")+"."))
			continue
		}
		s := &StepBlock{Block: b, Kind: kind, Name: b.Labels[1], OfNode: source.Mentions(b.Body, "self"),
			module: module, scope: sc}
		if len(s.Name) > maxStepName {
			sc.Fail(b.LabelRanges[1], "invalid name", "The name of a step has at most %d characters; this has %d.", maxStepName,
				len(s.Name))
			continue
		}
		if !stepNameRE.MatchString(s.Name) {
			sc.Fail(b.LabelRanges[1], "invalid name", "%q cannot be the name of a step: it has lower-case letters, digits "+
				"and '_', since it is part of the step's address.", s.Name)
			continue
		}
		attrs, _ := b.Body.JustAttributes()
		if a := attrs["on"]; a != nil {
			s.on = stepNodes(sc, a, nodes)
		}
		out = append(out, s)
	}
	return out
}

// stepNodes reads node.NAME or a list of such; what is wrong is reported.
func stepNodes(sc *eval.Scope, a *hcl.Attribute, nodes []*hcl.Block) map[*hcl.Block]bool {
	out := map[*hcl.Block]bool{}
	var labels []string
	for _, b := range nodes {
		labels = append(labels, b.Labels[0])
	}
	exprs := []hcl.Expression{a.Expr}
	if list, diags := hcl.ExprList(a.Expr); !diags.HasErrors() {
		exprs = list
	}
	for _, e := range exprs {
		t, list := hcl.AbsTraversalForExpr(e)
		name, ok := hcl.TraverseAttr{}, false
		if !list.HasErrors() && len(t) == 2 && t.RootName() == "node" {
			name, ok = t[1].(hcl.TraverseAttr)
		}
		if !ok {
			sc.Fail(e.Range(), "not a node", "The argument \"on\" names node blocks: on = node.NAME, or on = [node.A, node.B].")
			continue
		}
		i := slices.Index(labels, name.Name)
		if i < 0 {
			sc.Fail(e.Range(), "unknown node", "%s", eval.UnknownName("node", name.Name, labels))
			continue
		}
		out[nodes[i]] = true
	}
	return out
}

// RunsOn reports whether the block is for a machine.
func (b *StepBlock) RunsOn(m *Machine) bool {
	return (b.module == "" || b.module == m.module) && (b.on == nil || b.on[m.block])
}

// DecodeStep evaluates a step block for a node: one result, or with for_each one
// for each element. ok is false when something was wrong, which was reported.
func DecodeStep(b *StepBlock, m *Machine, self cty.Value) (out []*Step, ok bool) {
	sc := b.scope
	ctx := sc.Ctx.NewChild()
	ctx.Variables = map[string]cty.Value{"self": self}
	attrs, _ := b.Block.Body.JustAttributes()
	each := attrs["for_each"]
	if each == nil {
		a, ok := stepInstance(sc, b, m, ctx, b.Name)
		if a == nil {
			return nil, ok
		}
		return []*Step{a}, ok
	}
	ok = true
	ids := map[string]string{}
	before := sc.Errors()
	elements, known := sc.ForEach(each, ctx)
	if !known {
		child := ctx.NewChild()
		child.Variables = map[string]cty.Value{"each": cty.ObjectVal(eval.AnyElement)}
		stepInstance(sc, b, m, child, b.Name)
	}
	if !known || sc.Errors() > before {
		return nil, false
	}
	for _, e := range elements {
		if stepID(e.Key) == "" {
			sc.Fail(each.Expr.Range(), "invalid key",
				"The key %q has no letter and no digit, so no name of a step can be made of it. Choose another key.", e.Key)
			return nil, false
		}
		one := ctx.NewChild()
		one.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(e.Key),
			"value": e.Value})}
		id := b.Name + "_" + stepID(e.Key)
		if before, again := ids[id]; again {
			sc.Fail(each.Expr.Range(), "duplicate name", "The keys %q and %q both make the step %q: of a key only letters "+
				"and digits count, in lower case. Rename one of them.", before, e.Key, id)
			return nil, false
		}
		ids[id] = e.Key
		a, good := stepInstance(sc, b, m, one, id)
		ok = ok && good
		if a != nil {
			out = append(out, a)
		}
	}
	return out, ok
}

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// stepID makes a key of for_each a part of a step's name.
func stepID(key string) string {
	return strings.Trim(notInID.ReplaceAllString(strings.ToLower(key), "_"), "_")
}

// stepInstance evaluates one step; nil with ok when "when" leaves it out.
func stepInstance(sc *eval.Scope, b *StepBlock, m *Machine, ctx *hcl.EvalContext, id string) (out *Step, ok bool) {
	s := sc.Section(b.Kind.Block, b.Block, ctx)
	if v, given := s.Values["when"]; given && v.False() {
		return nil, s.OK
	}
	a := &Step{Section: s, Kind: b.Kind, After: s.Strs("after"), Before: s.Strs("before")}
	a.Out = steps.Spec{ID: id, Kind: b.Kind.Name, Source: sc.Files.Place(b.Block.DefRange),
		Timeout: s.Duration("timeout", time.Second, 24*time.Hour, 0), Retries: int(s.Int("retries", 0, 10, 0)),
		Keep: s.Bool("keep")}
	a.Args = kindArgs(b.Kind, m, s, ctx)
	a.Value = b.Kind.step(a.Args)
	if s.OK {
		a.Out.Title = b.Kind.title(a.Value, a.Args)
		if b.Kind.Makes != nil {
			a.Makes = b.Kind.Makes(a.Value, m.OS)
		}
	}
	return a, s.OK
}
