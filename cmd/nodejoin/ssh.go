package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"nodejoin/plan"
	"nodejoin/steps/agentbin"
	"nodejoin/steps/event"
	"nodejoin/steps/transport"
)

// dialSSH reaches a node over SSH as its connection block says.
func dialSSH(ctx context.Context, n plan.Node, emit func(event.Event)) (transport.Conn, error) {
	c := n.Connection.SSH
	return transport.DialSSH(ctx, transport.SSHConfig{
		Host: c.Host, Port: c.Port, User: c.User, Identity: c.Identity, KnownHosts: c.KnownHosts, HostKey: c.HostKey,
		AcceptNew: c.AcceptNew, PasswordEnv: c.PasswordEnv, PassphraseEnv: c.PassphraseEnv, Jump: c.Jump, Timeout: c.Timeout,
		OS: n.OS, Arch: n.Arch, DataDir: n.DataDir,
		Notify: func(state, detail string) {
			emit(event.HostState{Host: n.Name, State: state, Detail: detail})
		},
	}, agentbin.Get)
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
