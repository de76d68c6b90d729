package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

func directories(dir string, n int) executor.Request {
	req := executor.Request{Node: "n1"}
	for i := range n {
		req.Steps = append(req.Steps, steps.Spec{ID: fmt.Sprintf("d%d", i), Kind: "directory",
			Args: steps.MustArgs(&kinds.Directory{Path: filepath.Join(dir, fmt.Sprintf("d%d", i))})})
	}
	return req
}

func TestCheckAndApply(t *testing.T) {
	m := newMachine(t)
	c := m.config(m.addr)
	var phases []string
	c.Notify = func(state, _ string) { phases = append(phases, state) }
	conn := m.dial(t, c)
	req := directories(t.TempDir(), 30)

	check, err := Do(t.Context(), conn, wire.Check, req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(check.Results) != 30 || check.Results[29].Change.Action != steps.ActionCreate || check.Mutations != 0 {
		t.Fatalf("check: %+v", check)
	}
	if check.Facts.Hostname != "námé-𝄞" {
		t.Errorf("hostname %q did not survive", check.Facts.Hostname)
	}
	if strings.Join(phases, " ") != "pushing_agent agent_sent" {
		t.Errorf("phases %q, want one push", phases)
	}
	for _, d := range []string{m.dir, filepath.Join(m.home, ".nodejoin", "agent")} {
		if fi, err := os.Stat(d); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v, want it private", d, fi, err)
		}
	}

	var order []string
	reply, err := Do(t.Context(), conn, wire.Apply, req, func(e event.Event) {
		if d, ok := e.(event.StepDone); ok {
			order = append(order, d.Step+" "+d.Result)
		}
	})
	if err != nil || reply.Err != nil || len(reply.Changed) != 30 {
		t.Fatalf("apply: %+v, %v", reply, err)
	}
	for i, have := range order {
		if want := fmt.Sprintf("d%d changed", i); have != want {
			t.Fatalf("event %d: have %q, want %q", i, have, want)
		}
	}
	if len(order) != 30 {
		t.Fatalf("%d events before the reply, want 30", len(order))
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}

	phases = nil
	again := m.dial(t, c)
	if check, err = Do(t.Context(), again, wire.Check, req, nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range check.Results {
		if r.Err != nil || !r.Change.NoOp() {
			t.Fatalf("second check: %+v", r)
		}
	}
	if check.Mutations != 0 || len(phases) != 0 {
		t.Errorf("second check: %d mutations, phases %q", check.Mutations, phases)
	}
}

// TestRoundTrips: a no-op run takes the handshake and at most 3 round trips, whatever
// the number of steps.
func TestRoundTrips(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	trips := func(n int) (handshake, run int64) {
		p := sshtest.NewProxy(t, m.addr, 20*time.Millisecond)
		w, err := dialWay(t.Context(), m.config(p.Addr))
		if err != nil {
			t.Fatal(err)
		}
		handshake = p.Trips.Load()
		w.close()
		q := sshtest.NewProxy(t, m.addr, 20*time.Millisecond)
		conn := m.dial(t, m.config(q.Addr))
		if _, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), n), nil); err != nil {
			t.Fatal(err)
		}
		return handshake, q.Trips.Load() - handshake
	}
	for _, n := range []int{1, 60} {
		handshake, run := trips(n)
		t.Logf("%d steps: handshake %d, then %d round trips", n, handshake, run)
		if run > 3 {
			t.Errorf("%d steps: %d round trips after the handshake, want at most 3", n, run)
		}
	}
}

// TestRoundTripsOfApply: a cold run costs the same whatever the number of steps.
func TestRoundTripsOfApply(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	trips := func(n int) int64 {
		p := sshtest.NewProxy(t, m.addr, 20*time.Millisecond)
		conn := m.dial(t, m.config(p.Addr))
		req := directories(t.TempDir(), n)
		if _, err := Do(t.Context(), conn, wire.Check, req, nil); err != nil {
			t.Fatal(err)
		}
		before := p.Trips.Load()
		reply, err := Do(t.Context(), conn, wire.Apply, req, func(event.Event) {})
		if err != nil || len(reply.Changed) != n {
			t.Fatalf("apply of %d steps: %+v, %v", n, reply, err)
		}
		return p.Trips.Load() - before
	}
	one, many := trips(1), trips(60)
	t.Logf("apply: %d round trips for 1 step, %d for 60", one, many)
	if many > one+1 {
		t.Errorf("60 steps cost %d round trips, 1 step %d", many, one)
	}
}

// TestGreeting: the output of a login shell is not mistaken for the agent's, and the
// controller gives up on endless text.
func TestGreeting(t *testing.T) {
	m := newMachine(t, func(m *machine) { m.greeting = "Welcome to this machine\r\n\n{no message}\n" })
	m.place(t)
	conn := m.dial(t, m.config(m.addr))
	if _, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil); err != nil {
		t.Fatal(err)
	}
	noisy := newMachine(t, func(m *machine) { m.greeting = strings.Repeat("y\n", maxNoise) })
	conn = noisy.dial(t, noisy.config(noisy.addr))
	_, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
	var ce *ConnectError
	if !errors.As(err, &ce) || ce.Reason != ReasonAgent {
		t.Fatalf("%v, want a ConnectError", err)
	}
}

func TestLocal(t *testing.T) {
	conn := NewLocal(&fileHost{dataDir: t.TempDir()}, noArtifacts{}, t.TempDir())
	dir := t.TempDir()
	var hosts []string
	reply, err := Do(t.Context(), conn, wire.Apply, directories(dir, 3), func(e event.Event) {
		if d, ok := e.(event.StepDone); ok {
			hosts = append(hosts, d.Host)
		}
	})
	if err != nil || len(reply.Changed) != 3 || strings.Join(hosts, " ") != "n1 n1 n1" {
		t.Fatalf("%+v, %v, events of %q", reply, err, hosts)
	}
	check, err := Do(t.Context(), conn, wire.Check, directories(dir, 3), nil)
	if err != nil || !check.Results[2].Change.NoOp() {
		t.Fatalf("%+v, %v", check, err)
	}
	if err := conn.Stage(t.Context(), &Content{}, nil); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func slowStep(dir string) executor.Request {
	return executor.Request{Node: "n1",
		Steps: []steps.Spec{{ID: "slow", Kind: "directory",
			Args: steps.MustArgs(&kinds.Directory{Path: filepath.Join(dir, "slow")})}}}
}

func TestDropInApply(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := sshtest.NewProxy(t, m.addr, 0)
	conn := m.dial(t, m.config(p.Addr))
	dir := t.TempDir()
	_, err := Do(t.Context(), conn, wire.Apply, slowStep(dir), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			p.Cut()
		}
	})
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	// The agent notices and abandons its step, so that the next one can run.
	until(t, "the step is given up", func() bool {
		_, err := os.Stat(filepath.Join(dir, "slow.given-up"))
		return err == nil
	})
	again := m.dial(t, m.config(m.addr))
	if reply, err := Do(t.Context(), again, wire.Apply, directories(dir, 1), func(event.Event) {}); err != nil ||
		reply.Err != nil {
		t.Fatalf("%+v, %v", reply, err)
	}
}

func TestCancelInApply(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	conn := m.dial(t, m.config(m.addr))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reply, err := Do(ctx, conn, wire.Apply, slowStep(t.TempDir()), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			cancel()
		}
	})
	if err != nil || reply.Err == nil || reply.Err.Code != steps.CodeInterrupted {
		t.Fatalf("%+v, %v, want the agent's reply: interrupted", reply, err)
	}
}

func TestSilentMachine(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := sshtest.NewProxy(t, m.addr, 0)
	c := m.config(p.Addr)
	c.KeepAlive = 50 * time.Millisecond
	conn := m.dial(t, c)
	_, err := Do(t.Context(), conn, wire.Apply, slowStep(t.TempDir()), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			p.Stalled.Store(true)
		}
	})
	if !errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), "no sign of life") {
		t.Fatalf("%v, want ErrDropped for lack of a sign of life", err)
	}
}
