package block

import (
	"encoding/json"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"nodejoin/plan/eval"
)

// Output is the value of an output block.
type Output struct {
	Name        string
	Description string
	Sensitive   bool
	// Value is the value as JSON; nil for one that is sensitive, or not known without the values of variables.
	Value json.RawMessage
}

// decodeOutput evaluates an output block. The value has its marks; it is unknown if it is wrong, which was reported.
func decodeOutput(sc *eval.Scope, b *hcl.Block, ctx *hcl.EvalContext) (Output, cty.Value) {
	s := sc.Section(Root("output"), b, ctx)
	o := Output{Name: b.Labels[0]}
	if a := s.Attrs["description"]; a != nil {
		if v, _, outcome := sc.Evaluate(a.Expr, nil, "description", cty.String, eval.Allow{}); outcome == eval.IsValue {
			o.Description = v.AsString()
		}
	}
	if a := s.Attrs["sensitive"]; a != nil {
		v, _, outcome := sc.Evaluate(a.Expr, nil, "sensitive", cty.Bool, eval.Allow{})
		o.Sensitive = outcome == eval.IsWrong || outcome == eval.IsValue && v.True() // in doubt it is
	}
	a := s.Attrs["value"]
	if a == nil {
		return o, cty.DynamicVal
	}
	v, outcome := sc.EvaluateMarked(a.Expr, ctx, "value", cty.DynamicPseudoType, eval.Allow{Sensitive: true})
	switch outcome {
	case eval.IsNull:
		v = cty.NullVal(cty.DynamicPseudoType)
	case eval.IsWrong:
		return o, cty.DynamicVal
	}
	if eval.Secret(v) && !o.Sensitive {
		sc.Fail(a.Expr.Range(), "sensitive value", "The output %q has a sensitive value, and outputs are shown. Let it be "+
			"sensitive = true, so that it is only passed on; a value that is not a secret is shown with "+
			"nonsensitive(...).", o.Name)
		return o, cty.DynamicVal
	}
	if o.Sensitive {
		return o, eval.Hide(v)
	}
	raw, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		sc.Fail(a.Expr.Range(), "wrong type", "The output %q holds what JSON cannot: %s.", o.Name, err)
		return o, cty.DynamicVal
	}
	o.Value = raw
	return o, v
}

// decodeResult evaluates an output, whose value it adds to out, or a check.
func decodeResult(sc *eval.Scope, b *hcl.Block, ctx *hcl.EvalContext, out map[string]cty.Value) {
	if b.Type == "check" {
		decodeCheck(sc, b, ctx)
		return
	}
	_, out[b.Labels[0]] = decodeOutput(sc, b, ctx)
}

// decodeCheck judges a check block.
func decodeCheck(sc *eval.Scope, b *hcl.Block, ctx *hcl.EvalContext) {
	s := sc.Section(Root("check"), b, ctx)
	message := ""
	if a := s.Attrs["error_message"]; a != nil {
		v, _, o := sc.Evaluate(a.Expr, ctx, "error_message", cty.String, eval.Allow{})
		switch {
		case o == eval.IsNull || o == eval.IsValue && strings.TrimSpace(v.AsString()) == "":
			sc.Fail(a.Expr.Range(), "missing value", "The argument \"error_message\" is empty, and the check block needs it: "+
				"said when the condition does not hold.")
		case o == eval.IsValue:
			message = strings.TrimSpace(v.AsString())
		}
	}
	a := s.Attrs["condition"]
	if a == nil {
		return
	}
	ok, _, o := sc.Evaluate(a.Expr, ctx, "condition", cty.Bool, eval.Allow{Sensitive: true})
	switch {
	case o == eval.IsNull:
		sc.Fail(a.Expr.Range(), "missing value", "The argument \"condition\" is null here. It must be true or false.")
	case o == eval.IsValue && ok.False() && message != "":
		sc.Fail(a.Expr.Range(), "check failed", "Check %q: %s", b.Labels[0], message)
	}
}

// nodeValue is what node.LABEL is in outputs and checks: the node, or with for_each an object of nodes by key, or
// with count a list.
func nodeValue(b *hcl.Block, machines []*Machine) cty.Value {
	attrs, _ := b.Body.JustAttributes()
	byKey, list := map[string]cty.Value{}, []cty.Value{}
	for _, m := range machines {
		if !m.OK {
			return cty.DynamicVal // what it depends on is not known, or was reported
		}
		byKey[m.key] = m.value()
		list = append(list, byKey[m.key])
	}
	switch {
	case attrs["for_each"] != nil:
		return cty.ObjectVal(byKey)
	case attrs["count"] != nil:
		return cty.TupleVal(list)
	}
	return list[0]
}

// value is the machine as outputs and checks see it.
func (m *Machine) value() cty.Value {
	text := func(s string) cty.Value {
		if s == "" {
			return cty.NullVal(cty.String)
		}
		return cty.StringVal(s)
	}
	labels := map[string]cty.Value{}
	for k, v := range m.GivenLabels {
		labels[k] = cty.StringVal(v)
	}
	host := ""
	if m.Connection.SSH != nil {
		host = m.Connection.SSH.Host
	}
	if m.Connection.WinRM != nil {
		host = m.Connection.WinRM.Host
	}
	return cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal(m.Name), "os": text(m.OS), "arch": text(m.Arch),
		"host": text(host), "management_ip": text(m.IP), "labels": cty.ObjectVal(labels), "vars": m.Vars})
}
