package transport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
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
	if strings.Join(phases, " ") != "pushing_agent" {
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

// TestRoundTrips: a no-op run is the handshake and at most 3 round trips, whatever
// the number of steps.
func TestRoundTrips(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	trips := func(n int) (handshake, run int64) {
		p := newProxy(t, m.addr, 20*time.Millisecond)
		w, err := dialWay(t.Context(), m.config(p.addr))
		if err != nil {
			t.Fatal(err)
		}
		handshake = p.trips.Load()
		w.close()
		q := newProxy(t, m.addr, 20*time.Millisecond)
		conn := m.dial(t, m.config(q.addr))
		if _, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), n), nil); err != nil {
			t.Fatal(err)
		}
		return handshake, q.trips.Load() - handshake
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
		p := newProxy(t, m.addr, 20*time.Millisecond)
		conn := m.dial(t, m.config(p.addr))
		req := directories(t.TempDir(), n)
		if _, err := Do(t.Context(), conn, wire.Check, req, nil); err != nil {
			t.Fatal(err)
		}
		before := p.trips.Load()
		reply, err := Do(t.Context(), conn, wire.Apply, req, func(event.Event) {})
		if err != nil || len(reply.Changed) != n {
			t.Fatalf("apply of %d steps: %+v, %v", n, reply, err)
		}
		return p.trips.Load() - before
	}
	one, many := trips(1), trips(60)
	t.Logf("apply: %d round trips for 1 step, %d for 60", one, many)
	if many > one+1 {
		t.Errorf("60 steps cost %d round trips, 1 step %d", many, one)
	}
}

func TestBrokenAgentIsReplaced(t *testing.T) {
	for name, breakIt := range map[string]func(b []byte) []byte{
		"empty":         func([]byte) []byte { return nil },
		"cut short":     func(b []byte) []byte { return b[:len(b)/3] },
		"other program": func([]byte) []byte { return []byte("#!/bin/sh\necho '\"jsonrpc\"'; cat\n") },
		"other digest":  func(b []byte) []byte { return append(b, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			path := m.place(t)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, breakIt(b), 0o700); err != nil {
				t.Fatal(err)
			}
			conn := m.dial(t, m.config(m.addr))
			check, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 2), nil)
			if err != nil || len(check.Results) != 2 {
				t.Fatalf("%+v, %v", check, err)
			}
			want, _ := selfDigest()
			if have, err := fileDigest(path); err != nil || have != want {
				t.Errorf("the agent on the machine has digest %s (%v), want %s", have, err, want)
			}
		})
	}
}

// TestGreeting: what a login shell prints is not taken for the agent's words, and
// text without end is not waited for.
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

func TestNoAgentForTheMachine(t *testing.T) {
	m := newMachine(t)
	why := errors.New("none is embedded")
	_, err := DialSSH(t.Context(), m.config(m.addr), func(context.Context, string, string) (string, string, error) {
		return "", "", why
	})
	var ce *ConnectError
	if !errors.As(err, &ce) || ce.Reason != ReasonAgent || !errors.Is(err, why) {
		t.Fatalf("%v, want a ConnectError with its cause", err)
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
	if err := conn.Stage(t.Context(), steps.Source{File: "/any"}, nil); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestAgentThatDoesNotStart(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(m.dir, "crash"), "no such instruction")
	conn := m.dial(t, m.config(m.addr))
	_, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
	var ce *ConnectError
	if !errors.As(err, &ce) || ce.Reason != ReasonAgent || !strings.Contains(ce.Detail, "no such instruction") ||
		!strings.Contains(ce.Detail, "exit status 1") {
		t.Fatalf("%v, want a ConnectError with what the agent said", err)
	}
}

func TestPushInterrupted(t *testing.T) {
	m := newMachine(t)
	p := newProxy(t, m.addr, 0)
	p.cutAt = 1 << 20
	conn := m.dial(t, m.config(p.addr))
	_, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	list, _ := filepath.Glob(filepath.Join(m.home, ".nodejoin", "agent", "*"))
	for _, f := range list {
		if !strings.HasSuffix(f, leftover) {
			t.Errorf("%s is there after an interrupted push", f)
		}
	}
	again := m.dial(t, m.config(m.addr))
	if _, err := Do(t.Context(), again, wire.Check, directories(t.TempDir(), 1), nil); err != nil {
		t.Fatal(err)
	}
}

func TestPushRefused(t *testing.T) {
	m := newMachine(t)
	c := m.config(m.addr)
	c.DataDir = "/proc/nodejoin"
	conn := m.dial(t, c)
	_, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
	var ce *ConnectError
	if !errors.As(err, &ce) || ce.Reason != ReasonAgent || !strings.Contains(ce.Detail, "/proc/nodejoin") {
		t.Fatalf("%v, want a ConnectError that names the folder", err)
	}
}

func artifact(t *testing.T, size int) steps.Source {
	t.Helper()
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // it never fails
	sum := sha256.Sum256(b)
	return steps.Source{File: writeText(t, filepath.Join(t.TempDir(), "mirror.tar.gz"), string(b)),
		SHA256: hex.EncodeToString(sum[:])}
}

func TestStage(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := newProxy(t, m.addr, 0)
	p.cutAt = 1 << 40
	conn := m.dial(t, m.config(p.addr))
	src := artifact(t, 3<<20)
	var last, total int64
	if err := conn.Stage(t.Context(), src, func(d, n int64) { last, total = d, n }); err != nil {
		t.Fatal(err)
	}
	if last != 3<<20 || total != 3<<20 {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	blob := filepath.Join(m.dir, "blobs", src.SHA256)
	if have, err := fileDigest(blob); err != nil || have != src.SHA256 {
		t.Fatalf("staged: %s, %v", have, err)
	}
	before := p.sent.Load()
	if err := conn.Stage(t.Context(), src, nil); err != nil {
		t.Fatal(err)
	}
	if n := p.sent.Load() - before; n > 4096 {
		t.Errorf("a staged artifact cost %d bytes", n)
	}

	bad := src
	bad.SHA256 = strings.Repeat("0", 64)
	var de *host.DigestError
	if err := conn.Stage(t.Context(), bad, nil); !errors.As(err, &de) || de.Got != src.SHA256 {
		t.Fatalf("%v, want a DigestError", err)
	}
	bad.File = filepath.Join(t.TempDir(), "missing")
	if err := conn.Stage(t.Context(), bad, nil); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v, want ErrNotExist", err)
	}
	left, _ := filepath.Glob(filepath.Join(m.dir, "blobs", "*"))
	if len(left) != 1 {
		t.Errorf("left: %q, want only the staged one", left)
	}

	_ = conn.Close()
	until(t, "the staged artifact is dropped", func() bool {
		left, _ := filepath.Glob(filepath.Join(m.dir, "blobs", "*"))
		return len(left) == 0
	})
}

// until polls for a condition that another process brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

func TestStageUsedIsRemoved(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	conn := m.dial(t, m.config(m.addr))
	src := artifact(t, 10)
	if err := conn.Stage(t.Context(), src, nil); err != nil {
		t.Fatal(err)
	}
	req := directories(t.TempDir(), 1)
	// A kind that reads nothing and a step that fails: its blob stays.
	req.Steps = append(req.Steps, steps.Spec{ID: "bad", Kind: "no_such_kind", Args: steps.MustArgs(src)})
	reply, err := Do(t.Context(), conn, wire.Apply, req, func(event.Event) {})
	if err != nil || reply.Failed != "bad" {
		t.Fatalf("%+v, %v", reply, err)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "blobs", src.SHA256)); err != nil {
		t.Errorf("the artifact of a failed step: %v, want it kept", err)
	}
}

func TestDropInStage(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := newProxy(t, m.addr, 0)
	p.cutAt = 2 << 20
	conn := m.dial(t, m.config(p.addr))
	src := artifact(t, 8<<20)
	if err := conn.Stage(t.Context(), src, nil); !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	_ = conn.Close()
	again := m.dial(t, m.config(m.addr))
	if err := again.Stage(t.Context(), src, nil); err != nil {
		t.Fatal(err)
	}
	if have, err := fileDigest(filepath.Join(m.dir, "blobs", src.SHA256)); err != nil || have != src.SHA256 {
		t.Fatalf("staged: %s, %v", have, err)
	}
}

func TestCancelInStage(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	p := newProxy(t, m.addr, 0)
	conn := m.dial(t, m.config(p.addr))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	err := conn.Stage(ctx, artifact(t, 32<<20), func(done, _ int64) { cancel(why) })
	if !errors.Is(err, why) {
		t.Fatalf("%v, want the cause", err)
	}
	// The connection can still be used.
	if err := conn.Stage(t.Context(), artifact(t, 1<<20), nil); err != nil {
		t.Fatal(err)
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
	p := newProxy(t, m.addr, 0)
	conn := m.dial(t, m.config(p.addr))
	dir := t.TempDir()
	_, err := Do(t.Context(), conn, wire.Apply, slowStep(dir), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			p.cut()
		}
	})
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	// The agent notices and gives its step up, so that the next one may run.
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
	p := newProxy(t, m.addr, 0)
	c := m.config(p.addr)
	c.KeepAlive = 50 * time.Millisecond
	conn := m.dial(t, c)
	_, err := Do(t.Context(), conn, wire.Apply, slowStep(t.TempDir()), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			p.stalled.Store(true)
		}
	})
	if !errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), "no sign of life") {
		t.Fatalf("%v, want ErrDropped for lack of a sign of life", err)
	}
}

// TestAgentFolderIsClosed: an agent in a folder where others may write does not run; the folder is closed, and the
// agent is sent again.
func TestAgentFolderIsClosed(t *testing.T) {
	m := newMachine(t)
	path := m.place(t)
	if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	c := m.config(m.addr)
	var phases []string
	c.Notify = func(state, _ string) { phases = append(phases, state) }
	if _, err := Do(t.Context(), m.dial(t, c), wire.Check, directories(t.TempDir(), 1), nil); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Dir(path))
	if err != nil || fi.Mode().Perm() != 0o700 || strings.Join(phases, " ") != "pushing_agent" {
		t.Errorf("%v, %v, phases %q", fi.Mode(), err, phases)
	}
	// A link in its place is not followed.
	if err := errors.Join(os.RemoveAll(filepath.Dir(path)), os.Symlink(t.TempDir(), filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	_, err = Do(t.Context(), m.dial(t, c), wire.Check, directories(t.TempDir(), 1), nil)
	if err == nil || !strings.Contains(err.Error(), "is not a folder: remove it") {
		t.Errorf("a link: %v", err)
	}
}

// TestSecretsWaitForTheAgent: what holds secrets is sent to nothing but the agent with the digest that was asked
// for, at the price of one round trip; everything else goes ahead of its hello.
func TestSecretsWaitForTheAgent(t *testing.T) {
	for content, early := range map[string]bool{"hush-hush": false, "": true} {
		m := newMachine(t)
		path := m.place(t)
		heard := filepath.Join(t.TempDir(), "heard")
		// Another program in the agent's place notes what it hears, and says no hello.
		if err := os.WriteFile(path, []byte("#!/bin/sh\nexec timeout 1 cat > "+heard+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		req := directories(t.TempDir(), 1)
		req.Steps = append(req.Steps, steps.Spec{ID: "f", Kind: "file", Args: steps.MustArgs(&kinds.File{
			Path: filepath.Join(t.TempDir(), "f"), Content: content, Sensitive: content != "", Access: host.AccessPrivate})})
		reply, err := Do(t.Context(), m.dial(t, m.config(m.addr)), wire.Check, req, nil)
		if err != nil || len(reply.Results) != 2 {
			t.Fatalf("%+v, %v", reply, err)
		}
		b, err := os.ReadFile(heard)
		if err != nil || early != (len(b) > 0) || strings.Contains(string(b), "hush-hush") {
			t.Errorf("content %q: it heard %q, %v", content, b, err)
		}
	}
}
