package compat

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Use is how a program is run: its arguments and the text of its configuration file.
type Use struct {
	Args   []string
	Config string // YAML; "" = none, or unknown
}

// Changes describes in sentences what another version of a program means for how it is run: flags,
// configuration fields and feature gates that appear and disappear with it, and those that stay but are
// deprecated, or change their meaning. have is how the program runs in version from, want how it will run in
// version to. Other differences between them are listed too, without a reason.
func Changes(program string, have, want Use, from, to string) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, program+": "+fmt.Sprintf(format, args...)) }
	tell := func(what string, had, has []string, check func(name, version string) Verdict) {
		for _, n := range had {
			if !slices.Contains(has, n) {
				say("%s %s dropped%s", what, n, because(check(n, to), NotYet, Removed, Deprecated))
			}
		}
		for _, n := range has {
			before := check(n, from)
			if !slices.Contains(had, n) {
				say("%s %s added%s", what, n, because(before, NotYet))
			} else if after := check(n, to); after.Status != before.Status && after.Status != OK {
				say("%s %s: %s", what, n, after.Why)
			}
		}
	}
	tell("flag", flagNames(have.Args), flagNames(want.Args), func(n, v string) Verdict {
		return CheckFlag(program, n, v)
	})
	if have.Config == "" || want.Config == "" {
		return out
	}
	hadFields, hadGates := fieldNames(have.Config)
	hasFields, hasGates := fieldNames(want.Config)
	tell("field", hadFields, hasFields, func(n, v string) Verdict { return CheckField(program, n, v) })
	tell("feature gate", gateNames(hadGates), gateNames(hasGates), func(n, v string) Verdict {
		return CheckGate(n, strings.EqualFold(fmt.Sprint(hasGates[n]), "true"), v).Verdict
	})
	return out
}

// because returns the reason of a verdict that has one of these.
func because(v Verdict, of ...Status) string {
	if !slices.Contains(of, v.Status) {
		return ""
	}
	return ": " + v.Why
}

// flagNames returns the flags of a command line with two dashes, sorted. Flags with one dash belong to a
// wrapper program.
func flagNames(args []string) []string {
	var out []string
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); strings.HasPrefix(name, "--") && len(name) > 2 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fieldNames returns the fields of a configuration file that hold values, dotted and sorted, and its feature
// gates. Invalid YAML has none.
func fieldNames(text string) (fields []string, gates map[string]any) {
	var doc map[string]any
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return nil, nil
	}
	gates, _ = doc["featureGates"].(map[string]any)
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		m, ok := v.(map[string]any)
		if !ok || slices.Contains(freeFields, prefix) {
			fields = append(fields, prefix)
			return
		}
		for k, v := range m {
			walk(strings.TrimPrefix(prefix+"."+k, "."), v)
		}
	}
	for k, v := range doc {
		if k != "apiVersion" && k != "kind" && k != "featureGates" {
			walk(k, v)
		}
	}
	slices.Sort(fields)
	return fields, gates
}

func gateNames(gates map[string]any) []string {
	var out []string
	for g := range gates {
		out = append(out, g)
	}
	slices.Sort(out)
	return out
}

// Compare orders two versions by their numbers, ignoring vendor suffixes ("v1.36.3-gke.1", "v1.36.3+k3s1").
// ok is false if one is not a version.
func Compare(a, b string) (order int, ok bool) {
	x, errX := Parse(a)
	y, errY := Parse(b)
	if errX != nil || errY != nil {
		return 0, false
	}
	return slices.Compare([]uint64{x.Major(), x.Minor(), x.Patch()}, []uint64{y.Major(), y.Minor(), y.Patch()}), true
}
