//go:build linux

package farhosts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// TestCheapHosts: nodejoin sends its agent once for all of them, and changes their sandboxes, not this machine; their
// calls are counted; nothing else can be run on them.
func TestCheapHosts(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	b, err := New(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "bed"), Cheap: 2,
		Link: NewLink(2*time.Millisecond, 0), Called: func(c Call) {
			mu.Lock()
			defer mu.Unlock()
			if !c.OfNodejoin {
				calls = append(calls, c.Host+" "+c.Op+" "+c.Subject+c.Err)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	program := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(program, []byte("stand-in"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("stand-in")))
	agent := func(context.Context, string, string) (string, string, error) { return program, digest, nil }
	sent := 0
	const path = "/nodejoin-farhosts-test"
	for _, h := range b.Hosts {
		c, err := transport.DialSSH(t.Context(), transport.SSHConfig{Host: h.Address, Port: h.Port, User: "root",
			Identity: []string{b.Key()}, KnownHosts: []string{b.KnownHosts()}, ConfigFile: "none",
			Target: transport.Target{OS: "linux", Notify: func(state, _ string) {
				if state == "pushing_agent" {
					sent++
				}
			}}}, agent)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := transport.Do(t.Context(), c, wire.Apply, executor.Request{Node: h.Name, Steps: []steps.Spec{{ID: "d",
			Kind: "directory", Args: steps.MustArgs(&kinds.Directory{Path: path})}}}, nil)
		if err != nil || len(reply.Changed) != 1 {
			t.Errorf("%s: %+v, %v", h.Name, reply, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	mu.Lock()
	if have, want := strings.Join(calls, "\n"), "h1 make directory "+path+"\nh2 make directory "+path; have != want {
		t.Errorf("calls:\n%s\nwant:\n%s", have, want)
	}
	mu.Unlock()
	if sent != 1 {
		t.Errorf("the agent was sent %d times", sent)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("this machine was changed")
	}
	refuses(t, b)
}

// refuses: a command line that is not an agent's does not run.
func refuses(t *testing.T, b *Bed) {
	t.Helper()
	c, err := ssh.Dial("tcp", b.listeners[0].Addr().String(), &ssh.ClientConfig{User: "root",
		Auth: []ssh.AuthMethod{ssh.PublicKeys(b.signer)}, HostKeyCallback: ssh.FixedHostKey(b.signer.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.CombinedOutput("echo run"); err == nil || !strings.Contains(string(out), "nothing else") {
		t.Errorf("%q, %v", out, err)
	}
}
