package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"nodejoin/steps/event"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// TestOpenSSH does a first and a second run against the distribution's sshd. It
// needs root and an installed sshd.
func TestOpenSSH(t *testing.T) {
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil || os.Getuid() != 0 {
		skip(t, "needs /usr/sbin/sshd and root")
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	dir := t.TempDir()
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		skip(t, "no place for sshd: %v", err)
	}
	hostKey, userKey := ed25519Key(t), ed25519Key(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	config := writeText(t, filepath.Join(dir, "sshd_config"), fmt.Sprintf(
		"ListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPidFile none\nPermitRootLogin "+
			"yes\nUsePAM no\nSubsystem sftp internal-sftp\n",
		addr, writeKey(t, filepath.Join(dir, "host"), hostKey, ""),
		writeText(t, filepath.Join(dir, "keys"), authorized(newSigner(t, userKey)))))
	var log tail
	cmd := exec.Command(sshd, "-D", "-e", "-f", config)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	m := &machine{dir: filepath.Join(dir, "data"), host: newSigner(t, hostKey),
		identity: writeKey(t, filepath.Join(dir, "id"), userKey, "")}
	t.Cleanup(func() { // sshd uses the home folder that the system reports
		if self, err := selfDigest(); err == nil {
			if home, err := os.UserHomeDir(); err == nil {
				_ = os.Remove(filepath.Join(home, newAgentFile(m.config(addr.String()).Target, "", self).remote))
			}
		}
	})
	until(t, "sshd listens", func() bool {
		c, err := net.DialTimeout("tcp", addr.String(), time.Second)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	p := sshtest.NewProxy(t, addr.String(), 20*time.Millisecond)
	c := m.config(p.Addr)
	c.User = "root"
	req := directories(filepath.Join(dir, "made"), 30)
	src := artifact(t, 4<<20)

	conn := m.dial(t, c)
	if _, err := Do(t.Context(), conn, wire.Check, req, nil); err != nil {
		t.Fatal(err)
	}
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Fatal(err)
	}
	if reply, err := Do(t.Context(), conn, wire.Apply, req, func(event.Event) {}); err != nil ||
		len(reply.Changed) != 30 {
		t.Fatalf("%+v, %v", reply, err)
	}
	_ = conn.Close()
	until(t, "the staged artifact is dropped", func() bool {
		left, _ := filepath.Glob(filepath.Join(m.dir, "blobs", "*"))
		return len(left) == 0
	})

	q := sshtest.NewProxy(t, addr.String(), 20*time.Millisecond)
	c = m.config(q.Addr)
	c.User, c.HostKey, c.KnownHosts = "root", ssh.FingerprintSHA256(m.host.PublicKey()), nil
	start := time.Now()
	conn = m.dial(t, c)
	handshake := q.Trips.Load()
	check, err := Do(t.Context(), conn, wire.Check, req, nil)
	if err != nil || check.Mutations != 0 {
		t.Fatalf("%+v, %v", check, err)
	}
	t.Logf("no-op at 40 ms: %s, %d round trips up to the start of the agent, %d in all", time.Since(start), handshake,
		q.Trips.Load())

	// A lost connection in the middle of a step.
	_, err = Do(t.Context(), conn, wire.Apply, slowStep(dir), func(e event.Event) {
		if _, ok := e.(event.StepStarted); ok {
			q.Cut()
		}
	})
	if !errors.Is(err, ErrDropped) {
		t.Fatalf("%v, want ErrDropped", err)
	}
	until(t, "the step is given up", func() bool {
		_, err := os.Stat(filepath.Join(dir, "slow.given-up"))
		return err == nil
	})

	c.User = "no-such-user"
	ce := tryLogin(t, c)
	wantError(t, ce, ReasonAuth, "no-such-user", m.identity)
	if strings.Contains(ce.Detail, "PRIVATE KEY") {
		t.Error("the error contains a key")
	}
}

// skip skips a test that this machine cannot run. With NODEJOIN_REQUIRE=1 the test
// fails instead: a test that did not run has not passed.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("NODEJOIN_REQUIRE") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
