package plan

import (
	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// companions are arguments of kinds that say something only beside another one.
var companions = map[string]struct{ other, why string }{
	"service.recovery_reset": {"recovery", "it counts failures for the actions of recovery, and there are none"},
	"preflight.path":         {"min_free", "it names the volume for min_free, which is not given"},
}

// dataOf is the argument that holds the data of a registry value's type.
var dataOf = map[string]string{"string": "string", "expand_string": "string", "multi_string": "strings", "dword": "number", "qword": "number", "binary": "binary"}

// withoutEffect reports arguments of a step that, beside the others, say nothing.
func (c *compiler) withoutEffect(b *stepBlock, m *machine, s *eval.Section, args map[string]any) {
	fail := func(name, detail string, values ...any) {
		s.OK = false
		c.Fail(s.Attrs[name].NameRange, "argument without effect", detail, values...)
	}
	c.systems(b, m, s)
	for _, spec := range b.kind.block.Attrs {
		with, known := companions[b.kind.Name+"."+spec.Name]
		if known && s.Has(spec.Name) && (!s.Has(with.other) || emptyList(s, with.other)) && !s.Misspelt(with.other) {
			fail(spec.Name, "The argument %q has no effect here: %s. Remove it, or give %s.", spec.Name, with.why, with.other)
		}
	}
	switch b.kind.Name {
	case "service":
		if m.OS == "linux" && s.Has("hns_networks") {
			fail("hns_networks", "The argument \"hns_networks\" is for Windows: Linux has no Host Networking Service. Remove it, or name Windows nodes in the argument \"on\".")
		}
		for _, name := range []string{"interfaces", "chains", "network_namespaces"} {
			if m.OS == "windows" && s.Has(name) {
				fail(name, "The argument %q is for Linux: Windows has a Host Networking Service, and the argument hns_networks. Remove it, or name Linux nodes in the argument \"on\".", name)
			}
		}
		// Only a state that is written as it is: one that is computed may be another tomorrow.
		if args["state"] != "stopped" || !constant(s, "state") {
			break
		}
		for name, why := range map[string]string{
			"watch": "a service that is to be stopped is never restarted",
			"log":   "it is shown when the service ends by itself, and this one is to be stopped",
		} {
			if s.Has(name) {
				fail(name, "With state = \"stopped\" the argument %q has no effect: %s. Remove one of the two.", name, why)
			}
		}
	case "registry":
		t, _ := args["type"].(string)
		want, known := dataOf[t]
		for _, name := range []string{"string", "strings", "number", "binary"} {
			if known && name != want && s.Has(name) {
				fail(name, "With type = %q the argument %q has no effect: the data of that type is the argument %q. Remove one of the two.", t, name, want)
			}
		}
	case "flannel_agrees":
		for _, name := range []string{"vni", "port"} {
			if args["backend"] == recipe.HostGW && s.Has(name) {
				fail(name, "The argument %q is of VXLAN, and the backend is %q, which has none. Remove it.", name, recipe.HostGW)
			}
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
