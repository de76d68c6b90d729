package transport

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// TestMachine is an SSH server on loopback for tests of whole runs, reached through a
// proxy that can be cut.
type TestMachine struct {
	*machine
	proxy *sshtest.Proxy
}

// NewTestMachine starts a TestMachine.
func NewTestMachine(t *testing.T) *TestMachine {
	m := newMachine(t)
	return &TestMachine{machine: m, proxy: sshtest.NewProxy(t, m.addr, 0)}
}

// Home is the home folder of the user who logs in; Data is nodejoin's folder in it.
func (m *TestMachine) Home() string { return m.home }
func (m *TestMachine) Data() string { return m.dir }

// Agents is the folder that agents are pushed to.
func (m *TestMachine) Agents() (string, error) {
	digest, err := selfDigest()
	return filepath.Dir(filepath.Join(m.home, newAgentFile(m.config(m.addr).Target, "", digest).remote)), err
}

// Dial connects to it.
func (m *TestMachine) Dial(ctx context.Context) (Conn, error) {
	return DialSSH(ctx, m.config(m.proxy.Addr), selfAgent)
}

// Cut ends its connections.
func (m *TestMachine) Cut() { m.proxy.Cut() }

// Hostile is a machine whose SSH server calls serve instead of each command, with the digest that the agent should
// have.
func Hostile(t *testing.T, serve func(s gssh.Session, digest string),
	bounds func(string, wire.Bound) wire.Bound) func(context.Context) (Conn, error) {
	program := writeText(t, filepath.Join(t.TempDir(), "agent"), "no program")
	digest, err := fileDigest(program)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, func(m *machine) { m.Handler = func(s gssh.Session) { serve(s, digest) } })
	return func(ctx context.Context) (Conn, error) {
		c := m.config(m.addr)
		c.Bounds, c.KeepAlive = bounds, time.Second
		return DialSSH(ctx, c, func(context.Context, string, string) (string, string, error) { return program, digest, nil })
	}
}

// FileHost is a machine that has only files, with nodejoin's folder dir.
func FileHost(dir string) (host.Host, steps.Artifacts) { return newFileHost(dir), noArtifacts{} }
