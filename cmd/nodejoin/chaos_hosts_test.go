//go:build linux

package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"

	"nodejoin/steps/transport/sshtest"
)

// chaosHost is a machine behind an SSH server on loopback: this computer, with its own home folder and root.
// nodejoin reaches it through a proxy.
type chaosHost struct {
	t              *testing.T
	root, identity string
	key            string // fingerprint of its host key
	proxy          *sshtest.Proxy
	volume         bool // root is a separate volume, which can fill up
}

// newChaosHosts starts the machines, with OpenSSH if it is installed and this is root.
func newChaosHosts(t *testing.T, root string, n int) (out []*chaosHost) {
	user, identity := chaosKey(t, filepath.Join(root, "id"))
	for i := range n {
		h := &chaosHost{t: t, root: filepath.Join(root, fmt.Sprintf("host-%d", i+1)), identity: identity}
		if err := os.Mkdir(h.root, 0o755); err != nil {
			t.Fatal(err)
		}
		if syscall.Mount("none", h.root, "tmpfs", 0, "size=64m,mode=755") == nil {
			h.volume = true
			t.Cleanup(func() {
				h.ends()
				if err := syscall.Unmount(h.root, 0); err != nil {
					t.Errorf("%s: %v", h.root, err)
				}
			})
		}
		conf := filepath.Join(root, fmt.Sprintf("sshd-%d", i+1))
		if err := os.Mkdir(conf, 0o700); err != nil {
			t.Fatal(err)
		}
		host, file := chaosKey(t, filepath.Join(conf, "host"))
		h.key = ssh.FingerprintSHA256(host.PublicKey())
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		sshd, err := exec.LookPath("/usr/sbin/sshd")
		if err == nil && os.Getuid() == 0 && os.MkdirAll("/run/sshd", 0o755) == nil {
			_ = l.Close()
			h.openSSH(sshd, conf, file, l.Addr().String(), user)
		} else {
			h.server(l, host, user)
		}
		h.proxy = sshtest.NewProxy(t, l.Addr().String(), time.Millisecond)
		out = append(out, h)
	}
	return out
}

// chaosKey makes a key and writes it to a file.
func chaosKey(t *testing.T, path string) (ssh.Signer, string) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromSigner(k)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(k, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, path
}

// openSSH starts sshd. Its sessions have the machine's home folder instead of this user's.
func (h *chaosHost) openSSH(sshd, conf, key, addr string, user ssh.Signer) {
	home := filepath.Join(h.root, "home")
	file := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(conf, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			h.t.Fatal(err)
		}
		return path
	}
	const sftp = "/usr/lib/openssh/sftp-server"
	enter := file("enter", fmt.Sprintf(`#!/bin/sh
cd %[1]s || exit 1
export HOME=%[1]s
case $SSH_ORIGINAL_COMMAND in
%[2]s*) exec %[2]s ;;
*) exec /bin/sh -c "$SSH_ORIGINAL_COMMAND" ;;
esac
`, home, sftp), 0o755)
	config := file("sshd_config", fmt.Sprintf(`ListenAddress %s
HostKey %s
AuthorizedKeysFile %s
StrictModes no
PidFile none
PermitRootLogin yes
UsePAM no
MaxStartups 100
Subsystem sftp %s
ForceCommand %s
`, addr, key, file("keys", string(ssh.MarshalAuthorizedKey(user.PublicKey())), 0o600), sftp, enter), 0o600)
	cmd := exec.Command(sshd, "-D", "-f", config)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	h.makeHome()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("sshd does not listen on %s", addr)
		}
	}
}

func (h *chaosHost) makeHome() {
	if err := os.MkdirAll(filepath.Join(h.root, "home"), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

// server is an SSH server in this process, for computers without sshd.
func (h *chaosHost) server(l net.Listener, host, user ssh.Signer) {
	h.makeHome()
	home := filepath.Join(h.root, "home")
	srv := &gssh.Server{
		Handler:           func(s gssh.Session) { sshtest.Run(s, home) },
		SubsystemHandlers: map[string]gssh.SubsystemHandler{"sftp": func(s gssh.Session) { sshtest.ServeSFTP(s, home) }},
		PublicKeyHandler:  func(_ gssh.Context, k gssh.PublicKey) bool { return gssh.KeysEqual(k, user.PublicKey()) },
	}
	srv.AddHostKey(host)
	stop := sshtest.Serve(srv, l)
	h.t.Cleanup(func() {
		if err := stop(); err != nil {
			h.t.Error(err)
		}
	})
}

// node is its block in a plan.
func (h *chaosHost) node(name string) string {
	addr, port, _ := net.SplitHostPort(h.proxy.Addr)
	return fmt.Sprintf(`
node %q {
  os       = "linux"
  data_dir = %q
  connection "ssh" {
    host     = %q
    port     = %s
    user     = "root"
    host_key = %q
    identity = [%q]
    timeout  = "20s"
  }
}
`, name, filepath.Join(h.root, "data"), addr, port, h.key, h.identity)
}

// faults are the faults that may happen to the machine.
func (h *chaosHost) faults() []fault {
	to := func(s syscall.Signal) func(*controller, <-chan struct{}) {
		return func(*controller, <-chan struct{}) { h.signal(s) }
	}
	out := []fault{
		{name: "connection cut", do: func(*controller, <-chan struct{}) { h.proxy.Cut() }},
		{name: "connection cut again and again", do: func(_ *controller, ended <-chan struct{}) {
			for range 5 {
				h.proxy.Cut()
				after(700*time.Millisecond, ended)
			}
		}},
		{name: "machine not there", do: func(*controller, <-chan struct{}) {
			h.proxy.Refuses.Store(true)
			h.proxy.Cut()
		}},
		{name: "agent killed", do: to(syscall.SIGKILL)},
		{name: "agent terminated", do: to(syscall.SIGTERM)},
		{name: "agent stands for 5 s", do: func(_ *controller, ended <-chan struct{}) {
			h.signal(syscall.SIGSTOP)
			after(5*time.Second, ended)
			h.signal(syscall.SIGCONT)
		}},
	}
	if h.volume {
		out = append(out, fault{name: "disk full", do: func(*controller, <-chan struct{}) { h.fill() }})
	}
	return out
}

// hangs and stands last until nodejoin stops waiting: half a minute for a connection, a few minutes for an agent.
func (h *chaosHost) hangs() fault {
	return fault{name: "connection hangs", do: func(*controller, <-chan struct{}) { h.proxy.Stalled.Store(true) }}
}

const standing = "agent stands until it is given up"

func (h *chaosHost) stands() fault {
	return fault{name: standing, do: func(_ *controller, ended <-chan struct{}) {
		for len(h.processes()) == 0 {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		h.signal(syscall.SIGSTOP)
	}}
}

func (h *chaosHost) balloon() string { return filepath.Join(h.root, "balloon") }

// fill fills its volume.
func (h *chaosHost) fill() {
	f, err := os.Create(h.balloon())
	if err != nil {
		return // the volume is full already
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	_ = f.Close()
}

// processes are the processes of programs that run on the machine.
func (h *chaosHost) processes() (out []int) {
	list, _ := os.ReadDir("/proc")
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if strings.HasPrefix(exe, h.root+"/") || cwd == h.root || strings.HasPrefix(cwd, h.root+"/") {
			out = append(out, pid)
		}
	}
	return out
}

// signal sends a signal to the agents of the machine.
func (h *chaosHost) signal(s syscall.Signal) {
	for _, pid := range h.processes() {
		_ = syscall.Kill(pid, s)
	}
}

// agentEnds is how long an agent that lost its connection may take to finish its step.
const agentEnds = time.Minute

// repair ends the faults, and then waits until nothing of nodejoin runs there.
func (h *chaosHost) repair() {
	h.proxy.Cut()
	h.proxy.Stalled.Store(false)
	h.proxy.Refuses.Store(false)
	_ = os.Remove(h.balloon())
	h.signal(syscall.SIGCONT)
	h.ends()
}

// ends waits until no program runs on the machine.
func (h *chaosHost) ends() {
	h.t.Helper()
	for end := time.Now().Add(agentEnds); len(h.processes()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			for _, pid := range h.processes() {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				h.t.Errorf("%s: process %d still runs %s after the run: %q", h.root, pid, agentEnds, line)
			}
			h.signal(syscall.SIGKILL)
			return
		}
	}
}

// tree lists a folder's entries with their modes and contents.
func tree(root string) string {
	var b strings.Builder
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(&b, path, err)
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it is gone by now
		}
		fmt.Fprint(&b, strings.TrimPrefix(path, root), " ", fi.Mode())
		if text, err := os.ReadFile(path); err == nil {
			fmt.Fprintf(&b, " %.200q", text)
		}
		fmt.Fprintln(&b)
		return nil
	})
	return b.String()
}
