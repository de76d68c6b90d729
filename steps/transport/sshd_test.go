package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"nodejoin/steps/event"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// sshd is the distribution's SSH server, which lets one user in with one key.
type sshd struct {
	addr     string
	user     string
	host     ssh.Signer
	identity string // the user's key file
	process  *os.Process
}

// startSSHD starts an SSH server with more settings for sshd_config; before is what stands before the user's key in
// authorized_keys. It needs root and an installed sshd.
func startSSHD(t *testing.T, user, before string, settings ...string) *sshd {
	t.Helper()
	return startSSHDAt(t, func() string { return closed(t) }, user, before, settings...)
}

// sshdTries bounds how often an address of startSSHDAt may be taken.
const sshdTries = 5

// startSSHDAt is startSSHD at the first of these addresses that no other program has taken.
func startSSHDAt(t *testing.T, free func() string, user, before string, settings ...string) *sshd {
	t.Helper()
	program, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil || os.Getuid() != 0 {
		skip(t, "needs /usr/sbin/sshd and root")
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		skip(t, "no place for sshd: %v", err)
	}
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	dir, hostKey, userKey := t.TempDir(), ed25519Key(t), ed25519Key(t)
	d := &sshd{user: user, host: newSigner(t, hostKey), identity: writeKey(t, filepath.Join(dir, "id"), userKey, "")}
	// sshd reads the file as the user, who cannot read a folder of tests.
	keys := writeText(t, filepath.Join(dir, "keys"), before+authorized(newSigner(t, userKey))+"\n")
	settings = append(settings, "HostKey "+writeKey(t, filepath.Join(dir, "host"), hostKey, ""),
		"AuthorizedKeysFile none", "AuthorizedKeysCommand "+cat+" "+keys, "AuthorizedKeysCommandUser root",
		"PidFile none", "PermitRootLogin yes", "UsePAM no", "Subsystem sftp internal-sftp")
	for range sshdTries {
		d.addr = free()
		config := writeText(t, filepath.Join(dir, "sshd_config"),
			strings.Join(append(settings, "ListenAddress "+d.addr), "\n")+"\n")
		if d.serve(t, exec.Command(program, "-D", "-e", "-f", config)) {
			return d
		}
	}
	t.Fatalf("%d addresses were taken before sshd used them", sshdTries)
	return nil
}

// serve starts the server and waits until it listens; false: another program has its address.
func (d *sshd) serve(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	var log tail
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.process = cmd.Process
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		select {
		case <-gone: // its number may be that of another process
		default:
			d.kill()
			<-gone
		}
		if t.Failed() {
			t.Logf("sshd of %s: %s", d.user, log.String())
		}
	})
	ended := false
	until(t, "sshd listens", func() bool {
		select {
		case <-gone:
			ended = true
		default:
		}
		return ended || strings.Contains(log.String(), "Server listening on ")
	})
	if ended && !strings.Contains(log.String(), "Address already in use") {
		t.Fatalf("sshd of %s has ended: %s", d.user, log.String())
	}
	return !ended
}

// kill ends the server and its connections.
func (d *sshd) kill() {
	all := descendants(d.process.Pid)
	_ = d.process.Kill()
	for _, pid := range all {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

// descendants are the processes that a process has started, and those that these have.
func descendants(pid int) []int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid)) // it may have ended
	var out []int
	for _, f := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			out = append(append(out, child), descendants(child)...)
		}
	}
	return out
}

// TestOpenSSH does a first and a second run against the distribution's sshd. It
// needs root and an installed sshd.
func TestOpenSSH(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	address := other.Addr().String() // is taken
	d := startSSHDAt(t, func() string {
		defer func() { address = closed(t) }()
		return address
	}, "root", "")
	dir := t.TempDir()
	m := &machine{dir: filepath.Join(dir, "data"), host: d.host, identity: d.identity}
	t.Cleanup(func() { // sshd uses the home folder that the system reports
		if self, err := selfDigest(); err == nil {
			if home, err := os.UserHomeDir(); err == nil {
				_ = os.Remove(filepath.Join(home, newAgentFile(m.config(d.addr).Target, "", self).remote))
			}
		}
	})
	p := sshtest.NewProxy(t, d.addr, 20*time.Millisecond)
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

	q := sshtest.NewProxy(t, d.addr, 20*time.Millisecond)
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
