package transport

import (
	"context"
	"path/filepath"
	"testing"
)

// TestMachine is an SSH server on loopback for tests of whole runs, reached through a
// proxy that can be cut.
type TestMachine struct {
	*machine
	proxy *proxy
}

// NewTestMachine starts it.
func NewTestMachine(t *testing.T) *TestMachine {
	m := newMachine(t)
	return &TestMachine{machine: m, proxy: newProxy(t, m.addr, 0)}
}

// Home is the folder of the user that logs in, Data nodejoin's folder in it.
func (m *TestMachine) Home() string { return m.home }
func (m *TestMachine) Data() string { return m.dir }

// Agents is where the agents are pushed to.
func (m *TestMachine) Agents() (string, error) {
	digest, err := selfDigest()
	return filepath.Dir(filepath.Join(m.home, newAgentFile(m.config(m.addr), "", digest).remote)), err
}

// Dial connects to it.
func (m *TestMachine) Dial(ctx context.Context) (Conn, error) {
	return DialSSH(ctx, m.config(m.proxy.addr), selfAgent)
}

// Cut ends its connections.
func (m *TestMachine) Cut() { m.proxy.cut() }
