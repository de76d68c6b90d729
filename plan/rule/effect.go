package rule

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/steps"
)

// withoutEffect reports arguments of a step that have no effect beside the others, and those
// that its kind finds wrong.
func withoutEffect(_ *block.Plan, m *block.Machine, a *block.Step) {
	s := a.Section
	fail := func(name, detail string, values ...any) {
		s.FailAt(s.Attrs[name].NameRange, "argument without effect", detail, values...)
	}
	for _, spec := range a.Kind.Block.Attrs {
		arg := a.Kind.Args[spec.Name]
		if arg.With != "" && s.Has(spec.Name) && (!s.Has(arg.With) || emptyList(s, arg.With)) && !s.Misspelt(arg.With) {
			fail(spec.Name, "The argument %q has no effect here: %s. Remove it, or give %s.", spec.Name, arg.Why, arg.With)
		}
	}
	if a.Kind.Review == nil {
		return
	}
	w := steps.Written{OS: m.OS, Has: s.Has, Constant: func(name string) bool { return constant(s, name) }}
	for _, r := range a.Kind.Review(a.Value, w) {
		summary := r.Summary
		switch {
		case r.Warning:
			s.Scope.Warn(s.Attrs[r.Arg].NameRange, summary, "%s", r.Detail)
		case summary != "":
			s.Fail(r.Arg, summary, "%s", r.Detail)
		default:
			fail(r.Arg, "%s", r.Detail)
		}
	}
}

// constant reports whether an argument is written as a value, not computed from others.
func constant(s *eval.Section, name string) bool {
	a := s.Attrs[name]
	return a != nil && len(a.Expr.Variables()) == 0
}

// emptyList reports whether an argument is written as [].
func emptyList(s *eval.Section, name string) bool {
	a := s.Attrs[name]
	if a == nil {
		return false
	}
	list, diags := hcl.ExprList(a.Expr)
	return !diags.HasErrors() && len(list) == 0
}
