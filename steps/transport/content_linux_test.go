package transport_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport"
)

// opens counts how often a file is opened from now on; inotify(7) hears of each.
func opens(t *testing.T, path string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE_NOWRITE) // two that differ are not merged
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	buf := make([]byte, 64<<10)
	return func() (n int) {
		size, _ := unix.Read(fd, buf) // nothing is EAGAIN
		for at := 0; at+unix.SizeofInotifyEvent <= size; at += unix.SizeofInotifyEvent {
			if binary.NativeEndian.Uint32(buf[at+4:])&unix.IN_OPEN != 0 {
				n++
			}
		}
		return n
	}
}

// TestOneReadForAllHosts: a run opens an artifact of the controller once, to check and to send it, for all its hosts.
func TestOneReadForAllHosts(t *testing.T) {
	text := strings.Repeat("a program\n", 1<<17)
	sum := sha256.Sum256([]byte(text))
	src := steps.Source{File: filepath.Join(t.TempDir(), "tool"), SHA256: hex.EncodeToString(sum[:])}
	if err := os.WriteFile(src.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	machines := map[string]*transport.TestMachine{}
	p := &plan.Compiled{}
	for _, name := range []string{"n1", "n2", "n3"} {
		m := transport.NewTestMachine(t)
		machines[name] = m
		p.Nodes = append(p.Nodes, plan.Node{Name: name, OS: "linux", Steps: []steps.Spec{{ID: "tool", Kind: "binary",
			Args: steps.MustArgs(&kinds.Binary{Source: src, Path: filepath.Join(m.Home(), "tool"),
				Access: host.AccessPrivate})}}})
	}
	s := engine.New(p, engine.Options{
		Holder:  steps.LockHolder{Run: "r", User: "alice", Host: "ctl", PID: os.Getpid(), Command: "apply"},
		Emit:    func(event.Event) {},
		Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) { return machines[n.Name].Dial(ctx) },
	})
	defer s.Close()
	count := opens(t, src.File)
	s.Check(t.Context())
	for _, h := range s.Apply(t.Context()).Hosts {
		if h.Err != nil || len(h.Changed) != 1 {
			t.Errorf("%+v", h)
		}
		if b, err := os.ReadFile(filepath.Join(machines[h.Node].Home(), "tool")); err != nil || string(b) != text {
			t.Errorf("%s has %d bytes of the artifact, %v", h.Node, len(b), err)
		}
	}
	if n := count(); n != 1 {
		t.Errorf("the artifact was opened %d times for 3 hosts", n)
	}
}

// TestContents: a file that has changed is opened and hashed again; one of other bytes is refused each time.
func TestContents(t *testing.T) {
	src := steps.Source{File: filepath.Join(t.TempDir(), "tool")}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(src.File+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(src.File+".new", src.File); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(text))
		src.SHA256 = hex.EncodeToString(sum[:])
	}
	var files transport.Contents
	defer files.Close()
	read := func(c *transport.Content) string {
		t.Helper()
		b := make([]byte, c.Size)
		if _, err := c.Reader().ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write("one")
	one, err := files.Open(t.Context(), src)
	if err != nil || read(one) != "one" {
		t.Fatal(err)
	}
	other := src
	other.SHA256 = strings.Repeat("0", 64)
	var wrong *host.DigestError
	if _, err := files.Open(t.Context(), other); !errors.As(err, &wrong) || wrong.Got != src.SHA256 {
		t.Errorf("other bytes: %v", err)
	}
	write("another")
	if _, err := files.Open(t.Context(), one.Source); !errors.As(err, &wrong) {
		t.Errorf("the file has changed: %v", err)
	}
	if c, err := files.Open(t.Context(), src); err != nil || read(c) != "another" || read(one) != "one" {
		t.Errorf("the new file: %v", err)
	}
	src.File = filepath.Dir(src.File)
	if _, err := files.Open(t.Context(), src); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	src.File = filepath.Join(src.File, "tool")
	var fresh transport.Contents
	if _, err := fresh.Open(ctx, src); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
