package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/record"
)

// A gate that was open at the end of an earlier run and is closed now waits for nothing that
// is still to come: what its service had made is gone. The step restarts the service, and
// with it those whose steps come after the gate.

// gateOf is what the record says of a gate that is open now; nil for a step that is none.
func (x *Executor) gateOf(s steps.Spec, values map[string]string) *record.Gate {
	if kind, _ := x.kinds.Lookup(s.Kind); kind.Gate == nil {
		return nil
	}
	o, err := x.open(s, values)
	if err != nil || len(steps.ArgRefs(o.args)) > 0 {
		return nil
	}
	sum := sha256.Sum256(o.args.JSON())
	return &record.Gate{Args: hex.EncodeToString(sum[:]), PID: x.record.Starts[o.kind.Gate(o.step)].PID}
}

// wasOpen reports whether an earlier run has seen a gate open, and nodejoin has not started
// its service since.
func (x *Executor) wasOpen(s steps.Spec, values map[string]string) bool {
	gate := x.gateOf(s, values)
	return gate != nil && x.record.Gates[s.ID] == *gate
}

// noteOpen notes that a gate is open; false where that is noted, or it is no gate. A run
// without a plan, that of the boot service, only renews what is noted.
func (x *Executor) noteOpen(s steps.Spec, values map[string]string, plan string) bool {
	gate, noted := x.gateOf(s, values), x.record.Gates[s.ID]
	if gate == nil || noted == *gate || plan == "" && noted.Args != gate.Args {
		return false
	}
	x.record.Gates[s.ID] = *gate
	return true
}

// renewGates renews what is noted of the other gates of a service that was restarted for one of
// them: they were open as well.
func (x *Executor) renewGates(before, now int) {
	for id, g := range x.record.Gates {
		if g.PID != 0 && g.PID == before {
			g.PID = now
			x.record.Gates[id] = g
		}
	}
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
