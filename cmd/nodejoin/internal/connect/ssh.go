package connect

import (
	"context"
	"sync"

	"nodejoin/plan"
	"nodejoin/steps/agentbin"
	"nodejoin/steps/event"
	"nodejoin/steps/transport"
)

// Agents finds the agent for an OS and architecture: its file, with a packed one beside it, and its sha256.
type Agents func(ctx context.Context, os, arch string) (path, sha256 string, err error)

func (a Agents) orOwn() Agents {
	if a == nil {
		return agentbin.Get
	}
	return a
}

// shared is what the connections of a run share. It finds each agent once: a run over many hosts needs only a few, and
// each has some 10 MB.
type shared struct {
	files transport.SSHFiles

	agents Agents
	mu     sync.Mutex
	found  map[string][2]string // "os/arch" -> path, sha256
}

// agent is a transport.AgentSource.
func (s *shared) agent(ctx context.Context, os, arch string) (path, digest string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.found[os+"/"+arch]; ok {
		return f[0], f[1], nil
	}
	path, digest, err = s.agents(ctx, os, arch)
	if err == nil {
		if s.found == nil {
			s.found = map[string][2]string{}
		}
		s.found[os+"/"+arch] = [2]string{path, digest}
	}
	return path, digest, err
}

// dialSSH connects to a node over SSH.
func dialSSH(ctx context.Context, n plan.Node, s *shared, emit func(event.Event)) (transport.Conn, error) {
	c := s.sshConfig(*n.Connection.SSH)
	if b := n.Connection.SSH.Become; b != nil {
		c.Become = &transport.Become{Method: b.Method, PasswordEnv: b.PasswordEnv}
	}
	c.Target = target(n, emit)
	return transport.DialSSH(ctx, c, s.agent)
}

func (s *shared) sshConfig(c plan.SSH) transport.SSHConfig {
	return transport.SSHConfig{
		Host: c.Host, Port: c.Port, User: c.User, Identity: c.Identity, KnownHosts: c.KnownHosts, HostKey: c.HostKey,
		AcceptNew: c.AcceptNew, PasswordEnv: c.PasswordEnv, PassphraseEnv: c.PassphraseEnv, Jump: c.Jump,
		JumpKeys: c.JumpKeys, Timeout: c.Timeout, Files: &s.files,
	}
}

// dialWinRM connects to a node over WinRM.
func dialWinRM(ctx context.Context, n plan.Node, s *shared, emit func(event.Event)) (transport.Conn, error) {
	c := n.Connection.WinRM
	config := transport.WinRMConfig{Target: target(n, emit), Host: c.Host, Port: c.Port,
		User: c.User, Kerberos: c.Kerberos, HTTP: c.HTTP, PasswordEnv: c.PasswordEnv,
		CertificateSHA256: c.CertificateSHA256, CAFile: c.CAFile, Timeout: c.Timeout}
	if c.Through != nil {
		through := s.sshConfig(*c.Through)
		config.Through = &through
	}
	return transport.DialWinRM(ctx, config, s.agent)
}

// target is what a node's machine is.
func target(n plan.Node, emit func(event.Event)) transport.Target {
	return transport.Target{OS: n.OS, Arch: n.Arch, DataDir: n.DataDir, Interface: n.Interface,
		Notify: func(state, detail string) {
			emit(event.HostState{Host: n.Name, State: state, Detail: detail})
		}}
}
