package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"nodejoin/steps"
)

// A gate that was open at the end of an earlier run and is closed now waits for nothing that
// is still to come: what its service had made is gone. The step restarts the service, and
// with it those whose steps come after the gate.

// gateOf is the digest of a gate's arguments, "" for a step that is none.
func (x *Executor) gateOf(s steps.Spec, values map[string]string) string {
	kind, ok := x.kinds.Lookup(s.Kind)
	if !ok || kind.Gate == nil {
		return ""
	}
	args, err := steps.ResolveArgs(s.Args, values)
	if err != nil || len(steps.ArgRefs(args)) > 0 {
		return ""
	}
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

// wasOpen reports whether an earlier run has seen a gate open.
func (x *Executor) wasOpen(s steps.Spec, values map[string]string) bool {
	gate := x.gateOf(s, values)
	return gate != "" && x.record.Gates[s.ID] == gate
}

// noteOpen notes that a gate is open; false where that is noted, or it is no gate.
func (x *Executor) noteOpen(s steps.Spec, values map[string]string) bool {
	gate := x.gateOf(s, values)
	if gate == "" || x.record.Gates[s.ID] == gate {
		return false
	}
	x.record.Gates[s.ID] = gate
	return true
}

// servicesAfter are the services whose steps come after a step, directly or not.
func (x *Executor) servicesAfter(list []steps.Spec, id string) (names []string) {
	after := map[string]bool{id: true}
	for _, s := range list { // in their order
		if !slices.ContainsFunc(s.After, func(a string) bool { return after[a] }) {
			continue
		}
		after[s.ID] = true
		if step, kind, err := x.kinds.Decode(s); err == nil && kind.Runs != nil {
			names = append(names, kind.Runs(step).Name)
		}
	}
	return names
}

// restarted forgets what the services after a gate were started from, as its own service was
// restarted: their steps restart them.
func (x *Executor) restarted(list []steps.Spec, id string) {
	for _, name := range x.servicesAfter(list, id) {
		delete(x.record.Fingerprints, name)
	}
}
