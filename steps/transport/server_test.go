package transport

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"

	"nodejoin/steps/transport/sshtest"
)

// machine is an SSH server on loopback with commands, SFTP and forwarding. The
// agent is pushed to its folder dir.
type machine struct {
	*gssh.Server
	addr     string
	home     string     // of the user that logs in
	dir      string     // nodejoin's folder
	host     ssh.Signer // ed25519
	user     ssh.Signer
	identity string // its key file
	greeting string // what the login shell prints before it runs a command
	forwards atomic.Int64
	sessions sync.WaitGroup // running commands
}

func newSigner(t testing.TB, key crypto.Signer) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ed25519Key(t testing.TB) crypto.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ecdsaKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func rsaKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// writeKey writes a private key file, encrypted where a passphrase is given.
func writeKey(t testing.TB, path string, key crypto.Signer, passphrase string) string {
	t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return writeText(t, path, string(pem.EncodeToMemory(block)))
}

func writeText(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newMachine starts a server; the options change it before the start. The tests do
// not use the ssh-agent of the user who runs them.
func newMachine(t testing.TB, options ...func(*machine)) *machine {
	t.Helper()
	t.Setenv("SSH_AUTH_SOCK", "")
	key := ed25519Key(t)
	home := t.TempDir()
	m := &machine{home: home, dir: filepath.Join(home, "data"), host: newSigner(t, ed25519Key(t)),
		user: newSigner(t, key)}
	m.identity = writeKey(t, filepath.Join(t.TempDir(), "id"), key, "")
	m.Server = &gssh.Server{
		Handler:           m.command,
		SubsystemHandlers: map[string]gssh.SubsystemHandler{"sftp": func(s gssh.Session) { sshtest.ServeSFTP(s, m.home) }},
		PublicKeyHandler: func(_ gssh.Context, k gssh.PublicKey) bool {
			return gssh.KeysEqual(k, m.user.PublicKey())
		},
		ChannelHandlers: map[string]gssh.ChannelHandler{"session": gssh.DefaultSessionHandler,
			"direct-tcpip": gssh.DirectTCPIPHandler},
		LocalPortForwardingCallback: func(gssh.Context, string, uint32) bool {
			m.forwards.Add(1)
			return true
		},
	}
	m.AddHostKey(m.host)
	for _, o := range options {
		o(m)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = l.Addr().String()
	stop := sshtest.Serve(m.Server, l)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("server: %v", err)
		}
		// A running command may still write into the folders that are removed next.
		ended := make(chan struct{})
		go func() { m.sessions.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("a command still runs 30s after its connection ended")
		}
	})
	return m
}

// command prints the greeting, as some login shells do, and runs the command line.
func (m *machine) command(s gssh.Session) {
	m.sessions.Add(1)
	defer m.sessions.Done()
	_, _ = io.WriteString(s, m.greeting)
	sshtest.Run(s, m.home)
}

// config reaches the machine with its key and its pinned host key.
func (m *machine) config(addr string) SSHConfig {
	h, p, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(p)
	return SSHConfig{Host: h, Port: port, User: "admin", Identity: []string{m.identity},
		HostKey: ssh.FingerprintSHA256(m.host.PublicKey()),
		Target:  Target{OS: "linux", Arch: "amd64", DataDir: m.dir}, ConfigFile: "none", Timeout: 20 * time.Second}
}

// selfAgent is an AgentSource whose agent is the test program.
func selfAgent(context.Context, string, string) (string, string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", "", err
	}
	digest, err := selfDigest()
	return path, digest, err
}

var selfDigest = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return fileDigest(path)
})

// place puts the agent onto the machine beforehand.
func (m *machine) place(t testing.TB) string {
	t.Helper()
	path, digest, err := selfAgent(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	f := newAgentFile(m.config(m.addr).Target, path, digest)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(m.home, f.remote)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func (m *machine) dial(t testing.TB, c SSHConfig) Conn {
	t.Helper()
	conn, err := DialSSH(t.Context(), c, selfAgent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
