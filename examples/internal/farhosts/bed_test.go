//go:build linux

package farhosts

import (
	"context"
	"crypto/rand"
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
	"nodejoin/steps/agentbin"
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

// TestCheapHostsAtOnce: runs that find no agent send it at the same time, each to a home folder of its own, so that
// none is in the way of another. Nothing but the agent is left there.
func TestCheapHostsAtOnce(t *testing.T) {
	b, err := New(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "bed"), Cheap: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	program := make([]byte, 1<<20)
	_, _ = rand.Read(program)
	packed, err := agentbin.Pack(agentbin.Carried("linux"), program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path+packed.Form, packed.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	agent := func(context.Context, string, string) (string, string, error) { return path, packed.Digest, nil }
	work := func(h Host) error {
		c, err := transport.DialSSH(t.Context(), transport.SSHConfig{Host: h.Address, Port: h.Port, User: "root",
			Identity: []string{b.Key()}, KnownHosts: []string{b.KnownHosts()}, ConfigFile: "none",
			Target: transport.Target{OS: "linux"}}, agent)
		if err != nil {
			return err
		}
		_, err = transport.Do(t.Context(), c, wire.Apply, executor.Request{Node: h.Name, Steps: []steps.Spec{{ID: "d",
			Kind: "directory", Args: steps.MustArgs(&kinds.Directory{Path: "/nodejoin-farhosts-test"})}}}, nil)
		_ = c.Close()
		return err
	}
	var all sync.WaitGroup
	for _, h := range b.Hosts {
		all.Go(func() {
			if err := work(h); err != nil {
				t.Errorf("%s: %v", h.Name, err)
			}
		})
	}
	all.Wait()
	for _, h := range b.Hosts {
		list, err := filepath.Glob(filepath.Join(b.home(h.Name), ".nodejoin", "agent", "nodejoin-agent-*[0-9a-f]"))
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %v, %v: want one agent", h.Name, list, err)
		}
	}
}
