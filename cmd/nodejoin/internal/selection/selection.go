// Package selection keeps those nodes and steps of a compiled plan that the flags --target
// and --skip name by address.
package selection

import (
	"fmt"
	"slices"
	"strings"

	"nodejoin/plan"
	"nodejoin/plan/eval"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// Apply keeps the nodes and steps of c that targets name, or all if there are none, and
// then drops those that skips name. Both are addresses.
func Apply(c *plan.Compiled, targets, skips []string) error {
	if len(targets) == 0 && len(skips) == 0 {
		return nil
	}
	want, err := named(c, "target", targets)
	if err != nil {
		return err
	}
	not, err := named(c, "skip", skips)
	if err != nil {
		return err
	}
	var keep []plan.Node
	for _, n := range c.Nodes {
		only, without := want.steps[n.Name], not.steps[n.Name]
		if not.nodes[n.Name] || len(targets) > 0 && !want.nodes[n.Name] && len(only) == 0 {
			continue
		}
		if len(targets) > 0 && !want.nodes[n.Name] {
			need := closure(n.Steps, only, needs)
			all := len(n.Steps)
			n.Steps = slices.DeleteFunc(slices.Clone(n.Steps), func(s steps.Spec) bool { return !need[s.ID] })
			n.Partial = n.Partial || len(n.Steps) < all
		}
		if len(without) > 0 {
			gone := closure(n.Steps, without, neededBy(n.Steps))
			all := len(n.Steps)
			n.Steps = slices.DeleteFunc(slices.Clone(n.Steps), func(s steps.Spec) bool { return gone[s.ID] })
			n.Partial = n.Partial || len(n.Steps) < all
		}
		if len(n.Steps) > 0 || want.nodes[n.Name] || len(only)+len(without) == 0 {
			keep = append(keep, n)
		}
	}
	c.Nodes = keep
	return nil
}

// selection is what addresses name: whole nodes, and steps of other nodes.
type selection struct {
	nodes map[string]bool            // by name
	steps map[string]map[string]bool // node's name -> ids
}

// named is what the addresses of a flag name.
func named(c *plan.Compiled, flag string, addresses []string) (selection, error) {
	s := selection{map[string]bool{}, map[string]map[string]bool{}}
	for _, t := range addresses {
		found := false
		for _, n := range c.Nodes {
			if n.Address == t || n.Name == t {
				s.nodes[n.Name], found = true, true
				continue
			}
			id, ok := strings.CutPrefix(t, n.Address+".")
			if !ok {
				id, ok = strings.CutPrefix(t, n.Name+".")
			}
			if ok && slices.ContainsFunc(n.Steps, func(p steps.Spec) bool { return p.ID == id }) {
				if s.steps[n.Name] == nil {
					s.steps[n.Name] = map[string]bool{}
				}
				s.steps[n.Name][id], found = true, true
			}
		}
		if !found {
			return s, noSuchAddress(c, flag, t)
		}
	}
	return s, nil
}

// noSuchAddress is the error for an address that names nothing.
func noSuchAddress(c *plan.Compiled, flag, t string) error {
	var have []string
	for _, n := range c.Nodes {
		for _, prefix := range []string{n.Address + ".", n.Name + "."} {
			id, ok := strings.CutPrefix(t, prefix)
			if !ok {
				continue
			}
			for _, s := range n.Steps {
				have = append(have, s.ID)
			}
			if near := eval.Nearest(id, have); near != "" {
				return fmt.Errorf("--%s %s: %s has no step %q. Did you mean %s%s?", flag, t, n.Address, id, prefix, near)
			}
			return fmt.Errorf("--%s %s: %s has no step %q; it has %s", flag, t, n.Address, id, strings.Join(have, ", "))
		}
		have = append(have, n.Address)
	}
	if near := nearNode(c, t); near != "" {
		return fmt.Errorf("--%s %s: the plan has no such node. Did you mean %s?", flag, t, near)
	}
	const most = 20
	if len(have) > most {
		have = append(have[:most], fmt.Sprintf("and %d more", len(have)-most))
	}
	return fmt.Errorf("--%s %s: the plan has no such node; it has %s", flag, t, strings.Join(have, ", "))
}

// nearNode is t with the name of a similar node in place of its own; "" without one.
func nearNode(c *plan.Compiled, t string) string {
	var addresses, names []string
	for _, n := range c.Nodes {
		addresses, names = append(addresses, n.Address), append(names, n.Name)
	}
	if near := eval.Nearest(t, slices.Concat(addresses, names)); near != "" {
		return near
	}
	// The part after the last dot may be a step, but names of nodes may have dots too.
	i := strings.LastIndexByte(t, '.')
	if i < 0 {
		return ""
	}
	known := names
	if strings.HasPrefix(t, "node.") {
		known = addresses
	}
	if near := eval.Nearest(t[:i], known); near != "" {
		return near + t[i:]
	}
	return ""
}

// needs are the steps that s cannot run without.
func needs(s steps.Spec) []string {
	out := slices.Clone(s.After)
	if s.OnlyIf != "" {
		out = append(out, s.OnlyIf)
	}
	for _, r := range steps.ArgRefs(s.Args) {
		step, _, _ := strings.Cut(r, ".")
		out = append(out, step)
	}
	return out
}

// neededBy is the opposite of needs. The step node_joined comes after all others but does
// not need them: it is dropped only by its own name.
func neededBy(all []steps.Spec) func(steps.Spec) []string {
	by := map[string][]string{}
	for _, s := range all {
		if kinds.Of(s).Ends {
			continue
		}
		for _, n := range needs(s) {
			by[n] = append(by[n], s.ID)
		}
	}
	return func(s steps.Spec) []string { return by[s.ID] }
}

// closure is from and everything that next leads to.
func closure(all []steps.Spec, from map[string]bool, next func(steps.Spec) []string) map[string]bool {
	byID := map[string]steps.Spec{}
	for _, s := range all {
		byID[s.ID] = s
	}
	out := map[string]bool{}
	var add func(id string)
	add = func(id string) {
		s, ok := byID[id]
		if !ok || out[id] {
			return
		}
		out[id] = true
		for _, n := range next(s) {
			add(n)
		}
	}
	for id := range from {
		add(id)
	}
	return out
}

// Complete returns what may start with what was typed: names of nodes, their addresses (node.NAME) once that is begun,
// and the steps of a node whose name or address is complete, each with its kind after a tab.
func Complete(c *plan.Compiled, typed string) []string {
	var out []string
	for _, n := range c.Nodes {
		for _, name := range []string{n.Name, n.Address} {
			if name == n.Name || typed != "" {
				out = append(out, name)
			}
			if strings.HasPrefix(typed, name+".") {
				for _, s := range n.Steps {
					out = append(out, name+"."+s.ID+"\t"+s.Kind)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return !strings.HasPrefix(s, typed) })
}
