package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/block"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/sshtest"
)

// TestApplyTriesSSH: an apply over WinRM that has set an SSH server up logs in to it at its end, with the host key
// that the machine says. It ends with an error where the server shows another key or does not let nodejoin in. So
// does the next apply, which has nothing to change.
func TestApplyTriesSSH(t *testing.T) {
	for name, tt := range map[string]struct {
		impostor, stranger bool
		code               int
		says               string
	}{
		"lets in":           {says: `a: its SSH server lets Administrator in. For connection "ssh": host_key = "KEY"`},
		"another host key":  {impostor: true, code: exitUnreachable, says: "host key"},
		"key is not let in": {stranger: true, code: exitUnreachable, says: "the login was refused"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSSHMachine(t, tt.impostor, tt.stranger)
			for _, round := range []string{"first", "second"} {
				code, said := m.apply(t)
				want := strings.ReplaceAll(tt.says, "KEY", m.hostKey)
				if code != tt.code || !strings.Contains(said, want) {
					t.Errorf("%s apply: exit code %d, want %d; it says\n%s\nwant %q", round, code, tt.code, said, want)
				}
			}
		})
	}
}

// sshMachine is a sandbox in place of a machine with WinRM, with a real SSH server.
type sshMachine struct {
	plan, folder string
	hostKey      string // of the machine
}

// newSSHMachine starts the server, which accepts the keys of administrators that the machine has. An impostor shows
// another host key than the machine's; a stranger is not let in.
func newSSHMachine(t *testing.T, impostor, stranger bool) *sshMachine {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("TEST_WINRM", "no server reads it")
	m := &sshMachine{plan: t.TempDir(), folder: filepath.Join(t.TempDir(), "machine")}
	own, _ := chaosKey(t, filepath.Join(home, "own"))
	other, _ := chaosKey(t, filepath.Join(home, "other"))
	user, _ := chaosKey(t, filepath.Join(m.plan, "id"))
	m.hostKey = keyLine(own)
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: m.folder, OS: "windows", Hostname: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"": "a private key", ".pub": m.hostKey} {
		err := h.WriteFile(t.Context(), `C:\ProgramData\ssh\ssh_host_ed25519_key`+path, strings.NewReader(text),
			host.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &gssh.Server{PublicKeyHandler: func(ctx gssh.Context, k gssh.PublicKey) bool {
		keys, err := host.ReadFile(ctx, h, `C:\ProgramData\ssh\administrators_authorized_keys`, host.MaxText)
		return err == nil && keys != nil && ctx.User() == "Administrator" && !stranger &&
			strings.Contains(string(keys.Content), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))))
	}}
	srv.AddHostKey(own)
	if impostor {
		srv.HostSigners = nil
		srv.AddHostKey(other)
	}
	stop := sshtest.Serve(srv, l)
	t.Cleanup(func() { _ = stop() })
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The sandbox does not say the port.
	port := l.Addr().(*net.TCPAddr).Port
	write(filepath.Join(home, ".ssh", "config"), fmt.Sprintf("Host 127.0.0.1\n  Port %d\n", port))
	write(filepath.Join(m.plan, "plan.join.hcl"), fmt.Sprintf(`node "a" {
  os = "windows"
  connection "winrm" {
    host         = "127.0.0.1"
    user         = "Administrator"
    password_env = "TEST_WINRM"
  }
}
step "ssh_server" "ssh" {
  on  = node.a
  key = %q
}
`, keyLine(user)))
	return m
}

// apply runs an apply whose connection leads to the sandbox.
func (m *sshMachine) apply(t *testing.T) (code int, said string) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{term: &ui.Term{Out: &out, Err: &errs, In: strings.NewReader("")}, alone: m}
	code = execute(t.Context(), a, []string{"apply", "--auto-approve", m.plan})
	t.Log(out.String())
	return code, errs.String()
}

// Prepare implements firstboot.Alone: it stands for setup_ssh, which needs a cluster.
func (m *sshMachine) Prepare(_ context.Context, p *plan.Compiled) error {
	p.Nodes[0].Connection.WinRM.SetupSSH = &block.SetupSSH{Identity: []string{filepath.Join(m.plan, "id")}}
	return nil
}

// Options implements firstboot.Alone.
func (m *sshMachine) Options(_ *plan.Compiled, o engine.Options) engine.Options {
	o.Connect = func(ctx context.Context, n plan.Node) (transport.Conn, error) {
		h, err := sandbox.Open(ctx, sandbox.Config{Path: m.folder, OS: n.OS, Hostname: n.Name})
		if err != nil {
			return nil, err
		}
		return transport.NewLocal(h, artifact.New(artifact.Options{Direct: true}), h.LockDir()), nil
	}
	return o
}

func keyLine(s ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey())))
}
