package transport

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/wire"
)

// packedSelf is the test program, plain and packed in both forms.
var packedSelf = sync.OnceValues(func() (all struct {
	plain, tgz, zstd []byte
	digest           string
}, err error) {
	self, err := os.Executable()
	if err == nil {
		all.plain, err = os.ReadFile(self)
	}
	for form, to := range map[string]*[]byte{agentbin.TGZ: &all.tgz, agentbin.Zstd: &all.zstd} {
		if err == nil {
			var p agentbin.Packed
			p, err = agentbin.Pack(form, all.plain)
			*to, all.digest = p.Data, p.Digest
		}
	}
	return all, err
})

// packedAgent is an AgentSource with the test program as a release has it, packed: for Linux as Zstd.
func packedAgent(t *testing.T, os string) AgentSource {
	t.Helper()
	path, digest := packedIn(t, t.TempDir(), os)
	return func(context.Context, string, string) (string, string, error) { return path, digest, nil }
}

// packedIn is the agent of packedAgent in a folder, and its digest.
func packedIn(t *testing.T, dir, system string) (path, digest string) {
	t.Helper()
	p, err := packedSelf()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "agent")
	data := p.tgz
	if agentbin.Carried(system) == agentbin.Zstd {
		data = p.zstd
	}
	if err := os.WriteFile(path+agentbin.Carried(system), data, 0o700); err != nil {
		t.Fatal(err)
	}
	return path, p.digest
}

// tgzSelf is the test program as a TGZ.
func tgzSelf(t *testing.T) []byte {
	t.Helper()
	p, err := packedSelf()
	if err != nil {
		t.Fatal(err)
	}
	return p.tgz
}

// toolsOf is a folder with programs of this machine: what a shell with this PATH finds. It skips a test for which one
// is missing.
func toolsOf(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPackedAgent: the agent is sent packed if the machine has zstd, or a tar, that can unpack it, on one channel and
// without SFTP, and plain otherwise. Only the agent is left.
func TestPackedAgent(t *testing.T) {
	// As busybox has it (coreutils/head.c): what comes at once after the bytes is lost.
	ahead := `/usr/bin/head -c "$2"; timeout 0.3 dd bs=4096 count=1 of=/dev/null 2>/dev/null; exit 0`
	// As one without its flags has it (coreutils/dd.c of busybox): it ends before it reads.
	plainDD := toolsOf(t)
	const old = `case $* in *asyncio*) exit 1;; esac; exec /usr/bin/zstd "$@"`
	shim := writeText(t, filepath.Join(plainDD, "dd"), "#!/bin/sh\ncase $* in *iflag*) exit 1;; esac\n"+
		"exec /usr/bin/dd \"$@\"\n")
	if err := os.Chmod(shim, 0o700); err != nil {
		t.Fatal(err)
	}
	usual := []string{"chmod", "dd", "find", "gzip", "head", "mkdir", "mv", "rm", "sh", "tar", "timeout"}
	for name, c := range map[string]struct {
		zstd          bool
		program, does string
		sftp          bool
		plainDD       bool
	}{
		"zstd": {zstd: true}, "no zstd": {}, "a head that reads ahead": {true, "head", ahead, false, true},
		"a dd without flags":       {zstd: true, plainDD: true},
		"a zstd that does nothing": {true, "zstd", "exit 0", true, false},
		"a zstd of another format": {true, "zstd", "echo zstd: unsupported format >&2; exit 1", true, false},
		"an old zstd":              {true, "zstd", old, false, false},
		"no tar":                   {false, "tar", "exit 127", true, false},
		"a tar that does nothing":  {false, "tar", "exit 0", true, true},
		"a tar of another file":    {false, "tar", "echo short > ${4:-/dev/stdout}${4:+/agent}", true, false}} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			path := toolsOf(t, usual...)
			if c.zstd {
				path += ":" + toolsOf(t, "zstd")
			}
			if c.program != "" {
				dir := t.TempDir()
				writeText(t, filepath.Join(dir, c.program), "#!/bin/sh\n"+c.does+"\n")
				if err := os.Chmod(filepath.Join(dir, c.program), 0o700); err != nil {
					t.Fatal(err)
				}
				path = dir + ":" + path
			}
			if c.plainDD {
				path = plainDD + ":" + path
			}
			local, digest := packedIn(t, t.TempDir(), "linux")
			if c.program == "tar" { // it was packed for tar by an earlier run
				if err := os.WriteFile(local+agentbin.TGZ, tgzSelf(t), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := newMachine(t)
			var started, unpacked, files atomic.Int32
			m.Handler = func(s gssh.Session) {
				switch line := s.RawCommand(); {
				case strings.HasPrefix(line, "tar "):
					unpacked.Add(1)
				case strings.Contains(line, wire.PackedFollows):
					started.Add(1)
				}
				m.sessions.Add(1)
				defer m.sessions.Done()
				sshtest.RunLine(s, m.home, "PATH="+path+"; export PATH; "+s.RawCommand())
			}
			m.SubsystemHandlers["sftp"] = func(s gssh.Session) {
				files.Add(1)
				sshtest.ServeSFTP(s, m.home)
			}
			agents := func(context.Context, string, string) (string, string, error) { return local, digest, nil }
			p := sshtest.NewProxy(t, m.addr, 0)
			conn, err := DialSSH(ctx, m.config(p.Addr), agents)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := Do(ctx, conn, wire.Check, directories(t.TempDir(), 1), nil); err != nil {
				t.Fatal(err)
			}
			other := int32(0)
			if c.sftp {
				other = 1
			}
			if _, err := os.Stat(local + agentbin.TGZ); (err == nil) != (!c.zstd || c.sftp) {
				t.Errorf("whether it was packed for tar: %v", err)
			}
			if started.Load() != 1 || unpacked.Load() != other || files.Load() != other {
				t.Errorf("%d shells waited for it, it was sent by SFTP %d times, and tar ran alone %d times; "+
					"want 1, %d, %[4]d", started.Load(), files.Load(), unpacked.Load(), other)
			}
			if s, ok := conn.(*sshConn); !ok || s.sent {
				t.Error("nodejoin's folder was not made private")
			}
			if fi, err := os.Stat(m.dir); err != nil || fi.Mode().Perm() != 0o700 {
				t.Errorf("nodejoin's folder: %v, %v", fi, err)
			}
			list, err := agentsIn(m.home)
			if err != nil || len(list) != 1 || strings.HasSuffix(list[0].Name(), wire.Leftover) {
				t.Fatalf("%v, %v: want the agent alone", list, err)
			}
			if fi, err := list[0].Info(); err != nil || time.Since(fi.ModTime()) > leftoverAge {
				t.Errorf("%v, %v: another push would take it for a leftover", fi.ModTime(), err)
			}
		})
	}
}
