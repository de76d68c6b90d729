package engine

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// distrusting withholds from a node's steps every value that the machine reported about itself, if the step
// makes others trust the machine.
func distrusting(specs []steps.Spec) []steps.Spec {
	trusts := func(s steps.Spec) bool {
		k, _ := kinds.Lookup(s.Kind)
		return k.Trusts
	}
	if !slices.ContainsFunc(specs, trusts) {
		return specs
	}
	said := func(id string) bool {
		i := slices.IndexFunc(specs, func(s steps.Spec) bool { return s.ID == id })
		if i < 0 {
			return false
		}
		k, _ := kinds.Lookup(specs[i].Kind)
		return k.Place == steps.OnHost
	}
	out := slices.Clone(specs)
	for i, s := range out {
		if trusts(s) {
			out[i] = steps.Distrust(s, said)
		}
	}
	return out
}
