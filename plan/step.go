package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// stepBlock is a step block before it is evaluated for a node.
type stepBlock struct {
	block *hcl.Block
	kind  *kindSpec
	name  string
	on    map[string]bool // labels of node blocks; nil = all
	// evaluated for some node, so that everything wrong with it was found.
	evaluated bool
}

// maxStepName bounds the names of steps, which stand in every line of output.
const maxStepName = 100

// stepArgs is a step block evaluated for one node and one element of its for_each.
type stepArgs struct {
	*eval.Section
	spec          steps.Spec
	after, before []string
	makes         steps.Thing
	refers        bool // some argument holds a reference
}

// stepBlocks reads what of the step blocks does not depend on a node.
func (c *compiler) stepBlocks() []*stepBlock {
	var out []*stepBlock
	for _, b := range c.written["step"] {
		kind := kindSpecs()[b.Labels[0]]
		if instead, gone := replacedKinds[b.Labels[0]]; gone {
			c.Fail(b.LabelRanges[0], "unknown kind", "There is no kind of step %q: %s.", b.Labels[0], instead)
			continue
		}
		if kind == nil {
			c.Fail(b.LabelRanges[0], "unknown kind", "There is no kind of step %q.%s", b.Labels[0], cmp.Or(eval.DidYouMean(b.Labels[0], kindNames()), " There is "+strings.ReplaceAll(eval.OneOf(kindNames()), " or ", " and ")+"."))
			continue
		}
		s := &stepBlock{block: b, kind: kind, name: b.Labels[1]}
		if len(s.name) > maxStepName {
			c.Fail(b.LabelRanges[1], "invalid name", "The name of a step has at most %d characters; this has %d.", maxStepName, len(s.name))
			continue
		}
		if !stepNameRE.MatchString(s.name) {
			c.Fail(b.LabelRanges[1], "invalid name", "%q cannot be the name of a step: it has lower-case letters, digits and '_', since it is part of the step's address.", s.name)
			continue
		}
		if kind.Place == steps.OnCluster && len(c.written["cluster"]) == 0 {
			c.Fail(b.LabelRanges[0], "step without a cluster", "A step of kind %q is a state of the cluster that the nodes join, and the plan has no cluster block. Add one, or remove the step.", kind.Name)
		}
		attrs, _ := b.Body.JustAttributes()
		if a := attrs["on"]; a != nil {
			s.on = c.on(a)
		}
		out = append(out, s)
	}
	return out
}

// on reads node.NAME or a list of such; what is wrong is reported.
func (c *compiler) on(a *hcl.Attribute) map[string]bool {
	out := map[string]bool{}
	var labels []string
	for _, b := range c.written["node"] {
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
			c.Fail(e.Range(), "not a node", "The argument \"on\" names node blocks: on = node.NAME, or on = [node.A, node.B].")
			continue
		}
		found := false
		for _, l := range labels {
			found = found || l == name.Name
		}
		if !found {
			c.Fail(e.Range(), "unknown node", "%s", eval.UnknownName("node", name.Name, labels))
			continue
		}
		out[name.Name] = true
	}
	return out
}

// judge evaluates a step block that no node of the plan evaluates, to find what is
// wrong with it: everything of its node is unknown.
func (c *compiler) judge(b *stepBlock) {
	self := map[string]cty.Value{"vars": cty.DynamicVal}
	for _, n := range []string{"name", "os", "arch", "management_ip", "hostname", "build", "data_dir"} {
		self[n] = cty.UnknownVal(cty.String)
	}
	if len(c.written["cluster"]) > 0 {
		self["pod_cidr"] = cty.UnknownVal(cty.String)
	}
	c.stepArgs(b, &machine{}, cty.ObjectVal(self))
}

func (b *stepBlock) runsOn(m *machine) bool { return b.on == nil || b.on[m.label] }

// stepArgs evaluates a step block for a node: one result, or with for_each one
// for each element. ok is false when something was wrong, which was reported.
func (c *compiler) stepArgs(b *stepBlock, m *machine, self cty.Value) (out []*stepArgs, ok bool) {
	ctx := c.Ctx.NewChild()
	ctx.Variables = map[string]cty.Value{"self": self}
	attrs, _ := b.block.Body.JustAttributes()
	each := attrs["for_each"]
	if each == nil {
		a, ok := c.stepInstance(b, m, ctx, b.name)
		if a == nil {
			return nil, ok
		}
		return []*stepArgs{a}, ok
	}
	ok = true
	ids := map[string]string{}
	before := c.Errors()
	elements := c.ForEach(each, ctx)
	if c.Errors() > before {
		return nil, false
	}
	for _, e := range elements {
		if stepID(e.Key) == "" {
			c.Fail(each.Expr.Range(), "invalid key", "The key %q has no letter and no digit, so no name of a step can be made of it. Choose another key.", e.Key)
			return nil, false
		}
		one := ctx.NewChild()
		one.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(e.Key), "value": e.Value})}
		id := b.name + "_" + stepID(e.Key)
		if before, again := ids[id]; again {
			c.Fail(each.Expr.Range(), "duplicate name", "The keys %q and %q both make the step %q: of a key only letters and digits count, in lower case. Rename one of them.", before, e.Key, id)
			return nil, false
		}
		ids[id] = e.Key
		a, good := c.stepInstance(b, m, one, id)
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
func (c *compiler) stepInstance(b *stepBlock, m *machine, ctx *hcl.EvalContext, id string) (out *stepArgs, ok bool) {
	s := c.Section(b.kind.block, b.block, ctx)
	if v, given := s.Values["when"]; given && v.False() {
		return nil, s.OK
	}
	a := &stepArgs{Section: s, after: s.Strs("after"), before: s.Strs("before")}
	a.spec = steps.Spec{ID: id, Kind: b.kind.Name, Source: c.Files.Place(b.block.DefRange),
		Timeout: s.Duration("timeout", time.Second, 24*time.Hour, 0), Retries: int(s.Int("retries", 0, 10, 0))}
	args := c.kindArgs(b, m, s, ctx)
	if !s.OK {
		return nil, false
	}
	raw, err := json.Marshal(args)
	if err != nil {
		c.Fail(b.block.DefRange, "invalid step", "%s", err)
		return nil, false
	}
	a.spec.Args = raw
	step := b.kind.step(args)
	a.spec.Title = b.kind.title(step, args)
	if b.kind.Makes != nil {
		a.makes = b.kind.Makes(step, m.OS)
	}
	a.refers = bytes.Contains(raw, []byte(`\u0000`))
	return a, true
}

// kindArgs evaluates the arguments of the kind.
func (c *compiler) kindArgs(b *stepBlock, m *machine, s *eval.Section, ctx *hcl.EvalContext) map[string]any {
	args := map[string]any{}
	absent, secret := false, false
	null := map[string]hcl.Range{} // arguments that are written and null
	for _, spec := range b.kind.block.Attrs {
		arg, mine := b.kind.args[spec.Name]
		if !mine {
			continue
		}
		at := s.Attrs[spec.Name]
		if at == nil {
			if arg.fallback != nil {
				args[spec.Name] = arg.fallback
			}
			continue
		}
		v, marked, o := c.Evaluate(at.Expr, ctx, spec.Name, spec.Typ, eval.Allow{Sensitive: arg.secret, Later: true})
		switch {
		case o == eval.IsWrong:
			s.OK = false
			continue
		case o == eval.IsNull && arg.fallback != nil:
			args[spec.Name] = arg.fallback
			delete(s.Attrs, spec.Name)
			continue
		case o == eval.IsNull:
			null[spec.Name] = at.Expr.Range()
			delete(s.Attrs, spec.Name)
			continue
		}
		secret = secret || marked
		g, err := goValue(v, arg.typ)
		if err != nil {
			s.Fail(spec.Name, "wrong type", "The argument %q is wrong: %s.", spec.Name, err)
			continue
		}
		args[spec.Name] = g
		c.checkArg(b, m, s, spec.Name, g)
		absent = absent || spec.Name == "absent" && g == true
	}
	if b.kind.source {
		// Known to the section as static arguments: evaluated above.
		for _, n := range []string{"url", "file", "sha256", "sha512"} {
			if text, ok := args[n].(string); ok {
				s.Values[n] = cty.StringVal(text)
			}
		}
		src := artifactSource(s, b.block.DefRange, true)
		for n, v := range map[string]string{"file": src.File, "sha256": src.SHA256, "sha512": src.SHA512} {
			if v != "" {
				args[n] = v
			}
		}
	}
	for _, spec := range b.kind.block.Attrs {
		name := spec.Name
		arg := b.kind.args[name]
		if _, given := args[name]; given || !arg.required || s.Has(name) || absent && !arg.id || s.Misspelt(name) {
			continue
		}
		s.OK = false
		if at, ok := null[name]; ok {
			c.Fail(at, "missing value", "The argument %q is null here, and a step of kind %q needs it%s", name, b.kind.Name, eval.Explain(spec.Doc))
			continue
		}
		c.Fail(b.block.DefRange, "missing argument", "A step of kind %q needs the argument %q%s", b.kind.Name, name, eval.Explain(spec.Doc))
	}
	if absent {
		for _, name := range slices.Sorted(maps.Keys(args)) {
			switch {
			case b.kind.args[name].fallback != nil && !s.Has(name):
				delete(args, name)
			case b.kind.args[name].present && s.Has(name):
				s.OK = false
				c.Fail(s.Attrs[name].NameRange, "argument without effect", "With absent = true the argument %q has no effect. Remove one of the two.", name)
			}
		}
	}
	step := b.kind.step(args)
	c.withoutEffect(b, m, s, step)
	adminCredentials(c.decoded, s, args)
	switch step.(type) {
	case *kinds.File:
		jsonFile(s, args)
		c.runtimeClasses(s, args)
	case *kinds.Manifest:
		c.manifestStep(s, args)
	}
	if secret {
		args["sensitive"] = true // whatever the block says
	}
	return args
}

// checkArg checks the value of one argument against the words that it can be, or the form
// of paths.
func (c *compiler) checkArg(b *stepBlock, m *machine, s *eval.Section, name string, v any) {
	if b.kind.Name == "preflight" && name == "waive" {
		var ids []string
		list, _ := v.([]any)
		for _, one := range list {
			id, _ := one.(string)
			ids = append(ids, id)
		}
		checkWaived(s, ids)
		return
	}
	arg := b.kind.args[name]
	if list, isList := v.([]any); isList && arg.path {
		for _, one := range list {
			c.checkPath(m, s, name, one)
		}
		return
	}
	text, isText := v.(string)
	if !isText || steps.HasRef(text) {
		return
	}
	if arg.choices != nil && !slices.Contains(arg.choices, text) {
		s.Fail(name, "unknown value", "%q is nothing that %q can be. Use %s.%s", text, name, eval.OneOf(arg.choices), eval.DidYouMean(text, arg.choices))
		return
	}
	if arg.path {
		c.checkPath(m, s, name, text)
	}
}

func (c *compiler) checkPath(m *machine, s *eval.Section, name string, v any) {
	text, isText := v.(string)
	if !isText || steps.HasRef(text) || m.OS == "" {
		return
	}
	if why := badPath(m.OS, text); why != "" {
		s.Fail(name, "invalid path", "%q cannot be a path on %s: %s.", text, m.OS, why)
	}
}
