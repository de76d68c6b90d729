package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"

	gssh "github.com/gliderlabs/ssh"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"nodejoin/steps/transport/sshtest"
)

// cmdSSHD starts an SSH server on loopback that accepts one key: sshd [HOME]. With a home
// folder it runs commands and serves SFTP there, as this machine. Without one it runs nothing.
// It sets SSH_PORT, SSH_HOST_KEY (fingerprint) and SSH_KNOWN (a known_hosts line),
// and writes the accepted key to id and another one to other_id.
func cmdSSHD(ts *testscript.TestScript, _ bool, args []string) {
	key := func() (ed25519.PrivateKey, ssh.Signer) {
		_, k, err := ed25519.GenerateKey(rand.Reader)
		ts.Check(err)
		s, err := ssh.NewSignerFromSigner(k)
		ts.Check(err)
		return k, s
	}
	_, host := key()
	var user ssh.Signer
	for _, name := range []string{"other_id", "id"} {
		k, s := key()
		block, err := ssh.MarshalPrivateKey(k, "")
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), pem.EncodeToMemory(block), 0o600))
		user = s
	}
	srv := &gssh.Server{
		Handler:          func(s gssh.Session) { _ = s.Exit(127) },
		PublicKeyHandler: func(_ gssh.Context, k gssh.PublicKey) bool { return gssh.KeysEqual(k, user.PublicKey()) },
	}
	if len(args) > 0 {
		home := ts.MkAbs(args[0])
		srv.Handler = func(s gssh.Session) { sshtest.Run(s, home) }
		srv.SubsystemHandlers = map[string]gssh.SubsystemHandler{"sftp": func(s gssh.Session) { sshtest.ServeSFTP(s, home) }}
		caches, err := goCaches()
		ts.Check(err)
		for name, dir := range caches {
			ts.Setenv(name, dir)
		}
	}
	srv.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	stop := sshtest.Serve(srv, l)
	ts.Defer(func() { ts.Check(stop()) })
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	ts.Setenv("SSH_PORT", port)
	ts.Setenv("SSH_HOST_KEY", ssh.FingerprintSHA256(host.PublicKey()))
	ts.Setenv("SSH_KNOWN", "[127.0.0.1]:"+port+" "+string(ssh.MarshalAuthorizedKey(host.PublicKey())))
}

// goCaches are the variables with which nodejoin builds the agent with the caches of whoever runs the tests.
func goCaches() (map[string]string, error) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	dirs := strings.Fields(string(out))
	return map[string]string{"GOCACHE": dirs[0], "GOMODCACHE": dirs[1]}, nil
}

// cmdAPI starts an API server on loopback that answers every request with 401, as
// for an expired token, and writes a kubeconfig for it: api FILE
func cmdAPI(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: api FILE")
	}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "Unauthorized",
			"reason": "Unauthorized", "code": 401}`)
	}))
	ts.Defer(srv.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(kubeconfig(srv.URL, ca)), 0o600))
}

// cmdSilentAPI accepts connections on loopback and never answers, and writes a
// kubeconfig for it: silentapi FILE
func cmdSilentAPI(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: silentapi FILE")
	}
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	srv.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	ts.Defer(func() {
		_ = l.Close()
		<-done
	})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(kubeconfig("https://"+l.Addr().String(), ca)), 0o600))
}

// cmdClosedPort writes a kubeconfig for a port of loopback where nothing listens
// and sets CLOSED_PORT to it: closedport FILE
func cmdClosedPort(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: closedport FILE")
	}
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	ts.Setenv("CLOSED_PORT", fmt.Sprint(srv.Listener.Addr().(*net.TCPAddr).Port))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(kubeconfig(srv.URL, ca)), 0o600))
	srv.Close()
}

func kubeconfig(url string, ca []byte) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: admin-token-that-has-expired}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, url, base64.StdEncoding.EncodeToString(ca))
}
