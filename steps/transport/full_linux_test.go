package transport

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	gssh "github.com/gliderlabs/ssh"
	"golang.org/x/sys/unix"

	"nodejoin/steps"
	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

func init() {
	freeBytes = func(path string) (uint64, error) {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		return st.Bavail * uint64(st.Bsize), err
	}
}

// volume mounts a volume of this size on a folder, and returns what changes its size.
func volume(t *testing.T, dir, size string) (resize func(size string)) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "mode=755,size="+size); err != nil {
		skip(t, "no volume can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil { // an agent may still end
			t.Error(err)
		}
	})
	return func(size string) {
		t.Helper()
		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDiskOfTheMachine: an agent or an artifact for which the machine has no room is one error that says so, and
// leaves nothing. The next run goes on once there is room.
func TestFullDiskOfTheMachine(t *testing.T) {
	for name, agents := range map[string]AgentSource{"packed": packedAgent(t, "linux"), "plain": selfAgent} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			resize := volume(t, m.home, "4m")
			conn, err := DialSSH(t.Context(), m.config(m.addr), agents)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
			_ = conn.Close()
			var ce *ConnectError
			if !errors.As(err, &ce) || ce.Summary != "no room for the agent" || ce.Remedy == "" {
				t.Fatalf("%v, want one that says that there is no room", err)
			}
			t.Log(ce.Summary, ": ", ce.Detail)
			if left, err := os.ReadDir(filepath.Join(m.home, ".nodejoin", "agent")); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
			resize("64m")
			if conn, err = DialSSH(t.Context(), m.config(m.addr), agents); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil); err != nil {
				t.Fatal(err)
			}
			if name == "plain" {
				return
			}
			fullWhileStaging(t, m, conn)
		})
	}
}

// zeros are without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// fullWhileStaging fills the disk before, and during, the transfer of an artifact.
func fullWhileStaging(t *testing.T, m *machine, conn Conn) {
	t.Helper()
	src := artifact(t, 24<<20)
	rest := filepath.Join(m.home, "rest")
	fill := func() {
		f, err := os.Create(rest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%v, want a full disk", err)
		}
		_ = f.Close()
	}
	var once sync.Once
	for when, progress := range map[string]func(done, total int64){
		"before": nil,
		"meanwhile": func(done, _ int64) {
			if done > 1<<20 {
				once.Do(fill)
			}
		},
	} {
		if progress == nil {
			fill()
			lockOnFullDisk(t, m, conn)
		}
		err := stage(t.Context(), conn, src, progress)
		var full *steps.Error
		if !errors.As(err, &full) || full.Code != steps.CodeNoSpace || full.Remedy == "" {
			t.Errorf("full %s: %v, want a full disk", when, err)
		}
		if left, err := filepath.Glob(filepath.Join(m.dir, "blobs", "*")); err != nil || len(left) > 0 {
			t.Errorf("full %s: it left %v, %v", when, left, err)
		}
		if err := os.Remove(rest); err != nil {
			t.Fatal(err)
		}
	}
	if err := stage(t.Context(), conn, src, nil); err != nil {
		t.Error(err)
	}
}

// lockOnFullDisk: a lock whose holder cannot be written down is not taken, and leaves no temporary file.
func lockOnFullDisk(t *testing.T, m *machine, conn Conn) {
	t.Helper()
	_, err := conn.Lock(t.Context(), steps.LockRequest{Holder: steps.LockHolder{Run: "r"}})
	var full *steps.Error
	if !errors.As(err, &full) || full.Code != steps.CodeNoSpace {
		t.Errorf("the lock: %v, want a full disk", err)
	}
	if left, err := filepath.Glob(filepath.Join(m.dir, "*holder*")); err != nil || len(left) > 0 {
		t.Errorf("the lock left %v, %v", left, err)
	}
}

// TestFullDiskOfTheController: a cache without room for the agent is an error of the controller. The machine is not to
// blame, and gets nothing.
func TestFullDiskOfTheController(t *testing.T) {
	cache := t.TempDir()
	resize := volume(t, cache, "4k")
	path := filepath.Join(cache, "agent")
	m := newMachine(t)
	want := func(when string, agents AgentSource) {
		t.Helper()
		conn, err := DialSSH(t.Context(), m.config(m.addr), agents)
		if err == nil {
			_, err = Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 1), nil)
			_ = conn.Close()
		}
		var ce *ConnectError
		if !errors.As(err, &ce) || ce.Reason != ReasonController || !OfController(err) ||
			ce.Summary != "the controller's cache is full" || !strings.Contains(ce.Detail, cache) || ce.Remedy == "" {
			t.Fatalf("%s: %v, want one about the controller's cache", when, err)
		}
		if left, err := filepath.Glob(filepath.Join(m.home, ".nodejoin", "agent", "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: the machine has %v, %v", when, left, err)
		}
	}
	want("it is not found", func(context.Context, string, string) (string, string, error) {
		return "", "", agentbin.Unusable(cache, &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC})
	})
	resize("64m")
	_, digest := packedIn(t, cache, "linux")
	rest, err := os.Create(filepath.Join(cache, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(rest, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, want a full disk", err)
	}
	if err := rest.Close(); err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir() // this machine cannot unpack the agent
	for _, name := range []string{"tar", "zstd"} {
		writeText(t, filepath.Join(tools, name), "#!/bin/sh\nexit 127\n")
		if err := os.Chmod(filepath.Join(tools, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.Handler = func(s gssh.Session) {
		m.sessions.Add(1)
		defer m.sessions.Done()
		sshtest.RunLine(s, m.home, "PATH="+tools+":$PATH; export PATH; "+s.RawCommand())
	}
	want("it cannot be unpacked", func(context.Context, string, string) (string, string, error) {
		return path, digest, nil
	})
}
