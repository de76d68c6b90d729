package transport

import (
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
)

// Two connections to one machine: only one run holds it, over both ends of the wire,
// and a connection that is lost without a word gives it free.
func TestLockOverSSH(t *testing.T) {
	m := newMachine(t)
	one, two := m.dial(t, m.config(m.addr)), m.dial(t, m.config(m.addr))
	holder := func(run string) steps.Holder {
		return steps.Holder{Run: run, User: "alice", Host: "ctl", PID: 7, Since: time.Unix(1e9, 0).UTC(), Command: "apply"}
	}
	if r, err := one.Lock(t.Context(), steps.LockRequest{Holder: holder("1")}); err != nil || r != (steps.LockReply{}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if reply, err := one.Apply(t.Context(), directories(t.TempDir(), 2), nil); err != nil || reply.Err != nil || len(reply.Changed) != 2 {
		t.Fatalf("the holder's own apply: %+v, %v", reply, err)
	}
	r, err := two.Lock(t.Context(), steps.LockRequest{Holder: holder("2")})
	if err != nil || r.By == nil || *r.By != holder("1") {
		t.Fatalf("the second: %+v, %v", r, err)
	}
	if have := steps.Locked("the machine n1", *r.By).Error(); !strings.Contains(have, "apply by alice on ctl (process 7), since 2001-09-09T01:46:40Z") {
		t.Error(have)
	}

	// Let go of: free at once, without a trace.
	if err := one.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := two.Lock(t.Context(), steps.LockRequest{Holder: holder("2")}); err != nil || r != (steps.LockReply{}) {
		t.Fatalf("when it is free: %+v, %v", r, err)
	}
	// Lost: free once the agent has found out, and told.
	two.(*sshConn).way.close()
	r, err = one.Lock(t.Context(), steps.LockRequest{Holder: holder("3"), Wait: 20 * time.Second})
	if err != nil || r.By != nil || r.Left == nil || *r.Left != holder("2") {
		t.Fatalf("after the loss: %+v, %v", r, err)
	}
	if err := one.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}
