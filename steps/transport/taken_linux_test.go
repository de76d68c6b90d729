package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// TestAnnouncedOverSSH: the shell of a machine without the agent skips the first request, and an agent that is there
// takes the announcement.
func TestAnnouncedOverSSH(t *testing.T) {
	bin := t.TempDir()
	log := filepath.Join(bin, "log")
	shim := writeText(t, filepath.Join(bin, "dd"), "#!/bin/sh\necho \"$*\" >>"+log+"\nexec /usr/bin/dd \"$@\"\n")
	if err := os.Chmod(shim, 0o700); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	m.Handler = func(s gssh.Session) {
		m.sessions.Add(1)
		defer m.sessions.Done()
		sshtest.RunLine(s, m.home, "PATH="+bin+":$PATH; export PATH; "+s.RawCommand())
	}
	agents := packedAgent(t, "linux")
	for _, name := range []string{"no agent", "the agent is there"} {
		conn, err := DialSSH(t.Context(), m.config(m.addr), agents)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := conn.(*sshConn); !ok || !s.way.near {
			t.Errorf("%s: this machine does not count as near", name)
		}
		if _, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 200), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.Close()
	}
	if ran, err := os.ReadFile(log); err != nil || strings.Count(string(ran), " count=1 ") != 1 {
		t.Errorf("dd ran with\n%s%v\nwant it to skip one line", ran, err)
	}
}

// TestRoundTrip: it is the kernel's, not how long connecting took, but for what is no connection of TCP.
func TestRoundTrip(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if took := roundTrip(quickAck(c), time.Hour); took <= 0 || took >= time.Second {
		t.Errorf("%s on this machine", took)
	}
	a, b := net.Pipe()
	if took := roundTrip(quickAck(a), time.Hour); took != time.Hour {
		t.Errorf("%s, want how long connecting took", took)
	}
	_, _ = a.Close(), b.Close()
}

// TestNotTaken: a machine that waits for the agent and then says anything else, or nothing, gets it by SFTP.
func TestNotTaken(t *testing.T) {
	flood := strings.Repeat("x", 32<<10)
	for name, says := range map[string]func(gssh.Session){
		"nothing": func(s gssh.Session) { <-s.Context().Done() },
		"noise": func(s gssh.Session) {
			for {
				if _, err := io.WriteString(s, flood); err != nil {
					return
				}
			}
		},
		"something, and ends": func(s gssh.Session) { _, _ = io.WriteString(s, "no\n") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			var waited, files atomic.Int32
			m.Handler = func(s gssh.Session) {
				m.sessions.Add(1)
				defer m.sessions.Done()
				if strings.Contains(s.RawCommand(), wire.PackedFollows) {
					waited.Add(1)
					_, _ = io.WriteString(s, wire.NoAgentZstd+"\n")
					go func() { _, _ = io.Copy(io.Discard, s) }() // ends with the session
					says(s)
					return
				}
				sshtest.RunLine(s, m.home, s.RawCommand())
			}
			m.SubsystemHandlers["sftp"] = func(s gssh.Session) {
				files.Add(1)
				sshtest.ServeSFTP(s, m.home)
			}
			c := m.config(m.addr)
			c.Bounds = func(method string, b wire.Bound) wire.Bound {
				if method == wire.NoteHello {
					b.Within = 5 * time.Second
				}
				return b
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			conn, err := DialSSH(ctx, c, packedAgent(t, "linux"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, err = Do(ctx, conn, wire.Check, directories(t.TempDir(), 1), nil)
			if err != nil || waited.Load() != 1 || files.Load() != 1 {
				t.Errorf("%v; %d shells waited, SFTP was opened %d times", err, waited.Load(), files.Load())
			}
		})
	}
}

// TestTakesOnFullDisk: where not all can be written, the shell does not wait for bytes that dd has taken. The head is
// one that reads on where it cannot write, as that of busybox 1.35.
func TestTakesOnFullDisk(t *testing.T) {
	t.Run("from the start", func(t *testing.T) { takesOnFullDisk(t, `exec /usr/bin/dd "$@"`, true) })
	t.Run("later, and dd counts nothing", func(t *testing.T) {
		takesOnFullDisk(t, "head -c 70000 >/dev/null; echo a part; exit 1", false)
	})
}

func takesOnFullDisk(t *testing.T, dd string, full bool) {
	t.Helper()
	p, err := packedSelf()
	if err != nil {
		t.Fatal(err)
	}
	bin, home := t.TempDir(), t.TempDir()
	for name, does := range map[string]string{"dd": dd, "head": `exec /usr/bin/head "$@" >/dev/null`} {
		shim := writeText(t, filepath.Join(bin, name), "#!/bin/sh\n"+does+"\n")
		if err := os.Chmod(shim, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	volume(t, home, "64k")
	if full {
		if _, err := io.Copy(discardTo(t, filepath.Join(home, "rest")), zeros{}); err == nil {
			t.Fatal("the disk is not full")
		}
	}
	a := newAgentFile(Target{OS: "linux", DataDir: t.TempDir()}, "", p.digest)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", a.sent(nil))
	cmd.Dir, cmd.Stdin = home, r
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // head, too
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	_, _ = fmt.Fprintf(w, "%s %d .tgz 0\n", wire.PackedFollows, len(p.tgz))
	_, _ = w.Write(p.tgz) // as far as it reads; w stays open, as a connection does
	err = cmd.Wait()
	_ = w.Close()
	if ctx.Err() != nil || err == nil || !strings.Contains(out.String(), wire.PackedTaken) {
		t.Errorf("%v, %v, want that it ends with an error\n%s", err, ctx.Err(), out.String())
	}
}

// discardTo is a file that is closed with the test.
func discardTo(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
