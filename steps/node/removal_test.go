package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

var errKilled = errors.New("killed")

// TestRemovedStaysRemoved: a run is killed anywhere in the removal of all that the machine's boot part names, and the
// machine boots. The guard does not make or start any of it again, and does not wait for it; the next run finishes the
// removal.
func TestRemovedStaysRemoved(t *testing.T) {
	const marked = 1 // by the first mutating call: the record names what is removed
	for n, done := marked, false; !done; n++ {
		t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
			m := newMachine(t)
			m.plan(m.Host, append(m.specs(), m.bootFile())...)
			calls := 0
			done = m.plan(host.Intercept(m.Host, func(string, string) error {
				if calls++; calls > n {
					return errKilled
				}
				return nil
			}), m.bootFile())
			if err := m.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			opt := m.options(host.Intercept(m.Host, func(op, subject string) error {
				t.Errorf("after the boot: %s %s", op, subject)
				return nil
			}))
			if err := Run(ctx, opt); err != nil {
				t.Errorf("%v: %q", err, m.lines)
			}
			if !m.plan(m.Host, m.bootFile()) {
				t.Error("the next run does not finish the removal")
			}
			for _, name := range []string{"a", "b"} {
				if svc, err := m.Service(t.Context(), name); err == nil {
					t.Errorf("service %s is there: %+v", name, svc)
				}
			}
		})
	}
}

// plan applies list as a whole plan, and removes what the plan no longer names; done = nothing failed.
func (m *machine) plan(h host.Host, list ...steps.Spec) (done bool) {
	m.t.Helper()
	x := executor.NewExecutor(kinds.Catalog(), h, none{}, func(event.Event) {})
	req := executor.RemoveRequest{Request: executor.Request{Node: "win-1", Plan: "p", Whole: true, Steps: list}}
	for _, early := range []bool{true, false} {
		req.Early = early
		reply, err := x.Remove(m.t.Context(), req)
		if err != nil {
			m.t.Fatal(err)
		}
		if reply.Err != nil {
			return false
		}
		if !early {
			continue
		}
		applied, err := x.Apply(m.t.Context(), req.Request)
		if err != nil || applied.Err != nil {
			m.t.Fatal(err, applied.Err)
		}
	}
	return true
}
