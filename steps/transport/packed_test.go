package transport

import (
	"context"
	"os"
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

// packedSelf is the test program, plain and packed.
var packedSelf = sync.OnceValues(func() (both struct {
	plain []byte
	agentbin.Packed
}, err error) {
	self, err := os.Executable()
	if err == nil {
		both.plain, err = os.ReadFile(self)
	}
	if err == nil {
		both.Packed, err = agentbin.Pack(context.Background(), both.plain)
	}
	return both, err
})

// packedAgent is an AgentSource with the test program as a release has it: packed.
func packedAgent(t *testing.T) AgentSource {
	t.Helper()
	p, err := packedSelf()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path+agentbin.PackedSuffix, p.TGZ, 0o700); err != nil {
		t.Fatal(err)
	}
	return func(context.Context, string, string) (string, string, error) { return path, p.Digest, nil }
}

// TestPackedAgent: the agent is sent packed if the machine has a tar that can unpack it, on one channel and without
// SFTP, and plain otherwise. Only the agent is left.
func TestPackedAgent(t *testing.T) {
	agents := packedAgent(t)
	// As busybox has it (coreutils/head.c): what comes at once after the bytes is lost.
	ahead := `/usr/bin/head -c "$2"; timeout 0.3 dd bs=4096 count=1 of=/dev/null 2>/dev/null; exit 0`
	for name, c := range map[string]struct{ program, does string }{"tar": {}, "a head that reads ahead": {"head", ahead},
		"no tar": {"tar", "exit 127"}, "a tar that does nothing": {"tar", "exit 0"},
		"a tar of another file": {"tar", "echo short > ${4:-/dev/stdout}${4:+/agent}"}} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			m := newMachine(t)
			var started, unpacked, files atomic.Int32
			path := ""
			if c.program != "" {
				dir := t.TempDir()
				writeText(t, filepath.Join(dir, c.program), "#!/bin/sh\n"+c.does+"\n")
				if err := os.Chmod(filepath.Join(dir, c.program), 0o700); err != nil {
					t.Fatal(err)
				}
				path = "PATH=" + dir + ":$PATH; export PATH; "
			}
			m.Handler = func(s gssh.Session) {
				switch line := s.RawCommand(); {
				case strings.HasPrefix(line, "tar "):
					unpacked.Add(1)
				case strings.Contains(line, wire.PackedFollows):
					started.Add(1)
				}
				m.sessions.Add(1)
				defer m.sessions.Done()
				sshtest.RunLine(s, m.home, path+s.RawCommand())
			}
			m.SubsystemHandlers["sftp"] = func(s gssh.Session) {
				files.Add(1)
				sshtest.ServeSFTP(s, m.home)
			}
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
			if c.program == "tar" {
				other = 1
			}
			if started.Load() != 1+other || unpacked.Load() != other || files.Load() != other {
				t.Errorf("it was started %d times, sent by SFTP %d times, and tar ran alone %d times; want %d, %d, %[5]d",
					started.Load(), files.Load(), unpacked.Load(), 1+other, other)
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
