package block

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
)

// profileSet is how profiles are named in the plan, or in one of its modules.
type profileSet struct {
	all     map[string]*Profile // by address
	modules map[string]bool     // addresses of the modules that could be read
	inside  string              // address of the module in which they are named, with a dot; "" = the plan
}

// of is how the profiles are named inside a module.
func (set profileSet) of(module string) profileSet {
	set.inside = module + "."
	return set
}

// within returns the names of the profiles of a module, or of the plan; module is its address with a dot, or "".
func (set profileSet) within(module string) (out []string) {
	for _, address := range slices.Sorted(maps.Keys(set.all)) {
		if name, ok := strings.CutPrefix(address, module+"profile."); ok {
			out = append(out, name)
		}
	}
	return out
}

// named is the address of the profile that an argument names, and whether there is such a profile. What is wrong is
// reported, except for a profile of a module that could not be read.
func (set profileSet) named(s *eval.Section, argument string) (string, bool) {
	a := s.Attrs[argument]
	if a == nil {
		return "", false
	}
	t, list := hcl.AbsTraversalForExpr(a.Expr)
	if list.HasErrors() {
		set.notOne(s, a, argument)
		return "", false
	}
	inside := set.inside
	if t.RootName() == "module" {
		var known bool
		if inside, t, known = set.module(s, argument, t); !known {
			return "", false
		}
	}
	if len(t) != 2 || t.RootName() != "profile" {
		set.notOne(s, a, argument)
		return "", false
	}
	name, ok := t[1].(hcl.TraverseAttr)
	address := inside + "profile." + name.Name
	if ok && set.all[address] != nil {
		return address, true
	}
	known := set.within(inside)
	if len(known) == 0 && inside != "" {
		s.Fail(argument, "unknown profile", "%s has no profile.", strings.TrimSuffix(inside, "."))
		return address, false
	}
	s.Fail(argument, "unknown profile", "%s", eval.UnknownName("profile", name.Name, known))
	return address, false
}

// notOne reports an argument that names no profile.
func (set profileSet) notOne(s *eval.Section, a *hcl.Attribute, argument string) {
	name, or := "NAME", ""
	if len(set.modules) > 0 {
		or = ", or one of a module: " + argument + " = module.MODULE.profile.NAME"
	}
	v, list := a.Expr.Value(nil)
	if !list.HasErrors() && v.Type() == cty.String && v.IsKnown() && !v.IsNull() &&
		set.all[set.inside+"profile."+v.AsString()] != nil {
		name, or = v.AsString(), "" // in quotes
	}
	s.Fail(argument, "not a profile", "The argument %q names a profile block: %s = profile.%s, without quotes%s.",
		argument, argument, name, or)
}

// module splits module.NAME.profile.NAME, or module.NAME[KEY].profile.NAME, into the module's address with a dot and
// the rest. known is false where there is no such module, or where it could not be read, which was reported.
func (set profileSet) module(s *eval.Section, argument string, t hcl.Traversal) (string, hcl.Traversal, bool) {
	if len(t) < 3 {
		return "", t, true
	}
	name, ok := t[1].(hcl.TraverseAttr)
	if !ok {
		return "", t, true
	}
	whole, rest, key := set.inside+"module."+name.Name, t[2:], ""
	address := whole
	i, keyed := rest[0].(hcl.TraverseIndex)
	if keyed = keyed && i.Key.Type() == cty.String; keyed {
		key = i.Key.AsString()
		address, rest = fmt.Sprintf("%s[%q]", whole, key), rest[1:]
	}
	if len(rest) > 0 {
		if a, ok := rest[0].(hcl.TraverseAttr); ok {
			rest = append(hcl.Traversal{hcl.TraverseRoot{Name: a.Name, SrcRange: a.SrcRange}}, rest[1:]...)
		}
	}
	if set.modules[address] {
		return address + ".", rest, true
	}
	var keys []string
	for m := range maps.Keys(set.modules) {
		quoted, ok := strings.CutPrefix(m, whole)
		if k, err := strconv.Unquote(strings.Trim(quoted, "[]")); ok && err == nil {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	switch {
	case len(keys) > 0 && keyed:
		s.Fail(argument, "unknown element", "module.%s: %s", name.Name, eval.UnknownName("element", key, keys))
	case len(keys) > 0:
		s.Fail(argument, "missing element", "The module %q has for_each, so each of its elements has profiles of its "+
			"own. Name one, for example module.%s[%q].profile.NAME.", name.Name, name.Name, keys[0])
	case keyed && set.modules[whole]:
		s.Fail(argument, "module without elements", "The module %q has no for_each, so it has no elements. Write "+
			"module.%s.profile.NAME.", name.Name, name.Name)
	}
	return "", nil, false
}
