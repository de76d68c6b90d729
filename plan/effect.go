package plan

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/steps"
)

// withoutEffect reports arguments of a step that, beside the others or on the machine's
// system, say nothing, and those that its kind finds wrong.
func (c *compiler) withoutEffect(b *stepBlock, m *machine, s *eval.Section, step any) {
	fail := func(name, detail string, values ...any) {
		s.OK = false
		c.Fail(s.Attrs[name].NameRange, "argument without effect", detail, values...)
	}
	c.systems(b, m, s)
	for _, spec := range b.kind.block.Attrs {
		arg := b.kind.args[spec.Name]
		if arg.with != "" && s.Has(spec.Name) && (!s.Has(arg.with) || emptyList(s, arg.with)) && !s.Misspelt(arg.with) {
			fail(spec.Name, "The argument %q has no effect here: %s. Remove it, or give %s.", spec.Name, arg.why, arg.with)
		}
	}
	if b.kind.Review == nil {
		return
	}
	w := steps.Written{OS: m.OS, Has: s.Has, Constant: func(name string) bool { return constant(s, name) }}
	for _, r := range b.kind.Review(step, w) {
		if summary := r.Summary; summary != "" {
			s.Fail(r.Arg, summary, "%s", r.Detail)
		} else {
			fail(r.Arg, "%s", r.Detail)
		}
	}
}

// withoutEffectSSH reports what a pinned host key leaves without effect. A jump host
// of the plan is verified by known_hosts and accept_new, whatever is pinned.
func withoutEffectSSH(s *eval.Section) {
	if !s.Has("host_key") || s.Has("jump") || s.Misspelt("jump") {
		return
	}
	for _, name := range []string{"known_hosts", "accept_new"} {
		if s.Has(name) && !(name == "accept_new" && !s.Bool(name)) {
			s.Fail(name, "arguments exclude each other", "A pinned host_key is the only one that is accepted, and there is no jump host, so %s has no effect. Remove one of the two.", name)
		}
	}
}

// constant tells whether an argument is written as a value, not computed from others.
func constant(s *eval.Section, name string) bool {
	a := s.Attrs[name]
	return a != nil && len(a.Expr.Variables()) == 0
}

// emptyList tells whether an argument is written as [].
func emptyList(s *eval.Section, name string) bool {
	a := s.Attrs[name]
	if a == nil {
		return false
	}
	list, diags := hcl.ExprList(a.Expr)
	return !diags.HasErrors() && len(list) == 0
}
