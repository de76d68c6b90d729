package transport

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// TestBrokenAgentIsReplaced: also one that was whole when it started last.
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
			// It ran before, so that its digest is noted.
			conn := m.dial(t, m.config(m.addr))
			_, err = Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
			_ = conn.Close() // a check leaves nothing
			if _, noted := os.Stat(path + ".sum"); err != nil || noted != nil && runtime.GOOS == "linux" {
				t.Fatalf("the whole agent: %v, %v", err, noted)
			}
			if err := errors.Join(os.WriteFile(path+".x", breakIt(b), 0o700), os.Rename(path+".x", path)); err != nil {
				t.Fatal(err)
			}
			conn = m.dial(t, m.config(m.addr))
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
	p := sshtest.NewProxy(t, m.addr, 0)
	p.CutAt = 1 << 20
	conn := m.dial(t, m.config(p.Addr))
	_, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	list, _ := filepath.Glob(filepath.Join(m.home, ".nodejoin", "agent", "*"))
	for _, f := range list {
		if !strings.HasSuffix(f, wire.Leftover) {
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

// TestAgentFolderIsClosed: an agent does not run from a folder that others can write to. nodejoin makes the folder
// private and sends the agent again.
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
	if err != nil || fi.Mode().Perm() != 0o700 || strings.Join(phases, " ") != "pushing_agent agent_sent" {
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

// TestSecretsWaitForTheAgent: a request with secrets waits for the hello of an agent with the right digest, which
// costs one round trip. All other requests are sent before the hello.
func TestSecretsWaitForTheAgent(t *testing.T) {
	for content, early := range map[string]bool{"hush-hush": false, "": true} {
		m := newMachine(t)
		path := m.place(t)
		heard := filepath.Join(t.TempDir(), "heard")
		// Another program in the agent's place records its input and sends no hello.
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
			t.Errorf("content %q: it received %q, %v", content, b, err)
		}
	}
}

// TestPushesAtOnce: several runs that find no agent on a machine send it there at the same time, by SFTP. Each of them
// works, and one agent is left.
func TestPushesAtOnce(t *testing.T) {
	m := newMachine(t)
	var all sync.WaitGroup
	for range 4 {
		// Behind a link, so that all look for the folder before the first has made it.
		at := sshtest.NewProxy(t, m.addr, 20*time.Millisecond).Addr
		all.Go(func() {
			conn, err := DialSSH(t.Context(), m.config(at), selfAgent)
			if err == nil {
				_, err = Do(t.Context(), conn, wire.Check, directories(filepath.Join(m.home, "none"), 1), nil)
				_ = conn.Close() // a check leaves nothing
			}
			if err != nil {
				t.Errorf("%+v", err)
			}
		})
	}
	all.Wait()
	if list, err := agentsIn(m.home); err != nil || len(list) != 1 {
		t.Errorf("%v, %v: want one agent", list, err)
	}
}
