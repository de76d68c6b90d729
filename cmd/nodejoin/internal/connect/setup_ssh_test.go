package connect

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"

	"nodejoin/plan"
	"nodejoin/plan/block"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/sshtest"
)

func signer(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

// TestTrySSH: the login at a server that was set up takes the host key that the machine said, and no other; nodes
// without such a server, or whose server is not known, are left out.
func TestTrySSH(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	hostKey, _ := signer(t)
	other, _ := signer(t)
	user, key := signer(t)
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	identity := filepath.Join(t.TempDir(), "ops")
	if err := os.WriteFile(identity, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &gssh.Server{PublicKeyHandler: func(ctx gssh.Context, k gssh.PublicKey) bool {
		return ctx.User() == "Administrator" && gssh.KeysEqual(k, user.PublicKey())
	}}
	srv.AddHostKey(hostKey)
	stop := sshtest.Serve(srv, listener)
	t.Cleanup(func() { _ = stop() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	line := func(s ssh.Signer) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey()))) }
	node := func(name, user string, setup bool) plan.Node {
		w := &plan.WinRM{Host: "127.0.0.1", User: user}
		if setup {
			w.SetupSSH = setupSSH(identity)
		}
		return plan.Node{Name: name, Connection: plan.Connection{Type: "winrm", WinRM: w}}
	}
	known := map[string]string{"good": line(hostKey), "stranger": line(hostKey), "impostor": line(other),
		"plain": line(hostKey)}
	var said strings.Builder
	failures := TrySSH(t.Context(), []plan.Node{node("good", "Administrator", true),
		node("plain", "Administrator", false),
		node("stranger", "guest", true), node("impostor", "Administrator", true), node("unknown", "Administrator", true)},
		func(name string) (string, string) { return known[name], port }, &said)
	wantSaid := "good: its SSH server lets Administrator in. For connection \"ssh\": host_key = \"" + line(hostKey) +
		"\"\n"
	if said.String() != wantSaid {
		t.Errorf("it says %q, not %q", said.String(), wantSaid)
	}
	want := []transport.Reason{transport.ReasonAuth, transport.ReasonHostKey}
	if len(failures) != len(want) {
		t.Fatalf("failures: %v", failures)
	}
	for i, reason := range want {
		var e *transport.ConnectError
		if !errors.As(failures[i], &e) || e.Reason != reason {
			t.Errorf("%v, want %s", failures[i], reason)
		}
	}
}

func setupSSH(identity string) *block.SetupSSH { return &block.SetupSSH{Identity: []string{identity}} }
