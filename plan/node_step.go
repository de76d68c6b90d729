package plan

import (
	"bytes"
	"encoding/json"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/rule"
	"nodejoin/steps"
)

// judge evaluates a step block that is for no node of the plan, to find its mistakes:
// everything about its node is unknown.
func (c *compiler) judge(b *block.StepBlock) {
	self := map[string]cty.Value{"vars": cty.DynamicVal}
	for _, n := range []string{"name", "os", "arch", "management_ip", "hostname", "build", "data_dir"} {
		self[n] = cty.UnknownVal(cty.String)
	}
	if len(c.Written["cluster"]) > 0 {
		self["pod_cidr"] = cty.UnknownVal(cty.String)
	}
	c.stepArgs(b, &block.Machine{}, cty.ObjectVal(self))
}

// stepsOf returns the steps that a step block makes on a node: one, or with for_each one for
// each element. ok is false when something was wrong, which was reported. Callers must not
// change the steps.
func (c *compiler) stepsOf(b *block.StepBlock, m *block.Machine, self cty.Value) (out []*block.Step, ok bool) {
	key := sharedSteps{b, m.OS}
	if out, ok = c.shared[key]; ok {
		return out, true
	}
	if out, ok = c.stepArgs(b, m, self); ok && !b.OfNode {
		c.shared[key] = out
	}
	return out, ok
}

// stepArgs evaluates a step block for a node.
func (c *compiler) stepArgs(b *block.StepBlock, m *block.Machine, self cty.Value) (out []*block.Step, ok bool) {
	list, ok := block.DecodeStep(b, m, self)
	for _, a := range list {
		rule.ApplyStep(c.Plan, m, a)
		if !a.OK {
			ok = false
			continue
		}
		raw, err := json.Marshal(a.Args)
		if err != nil {
			a.FailAt(a.Block.DefRange, "invalid step", "%s", err)
			ok = false
			continue
		}
		a.Out.Args = steps.RawArgs(raw)
		a.Refers = bytes.Contains(raw, []byte(`\u0000`))
		out = append(out, a)
	}
	return out, ok
}
