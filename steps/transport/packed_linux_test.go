package transport

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"nodejoin/steps/agentbin"
	"nodejoin/steps/transport/wire"
)

// TestUnpackInOrder: the folder of the agent is checked when the one above it is closed to others. Who could write
// there may replace it until then; nothing is unpacked to where a link leads.
func TestUnpackInOrder(t *testing.T) {
	p, err := packedSelf()
	if err != nil {
		t.Fatal(err)
	}
	chmod, err := exec.LookPath("chmod")
	if err != nil {
		t.Fatal(err)
	}
	home, bin, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".nodejoin", "agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The shim replaces the folder before the first chmod, which closes it.
	shim := writeText(t, filepath.Join(bin, "chmod"), fmt.Sprintf("#!/bin/sh\n[ -L .nodejoin/agent ] || "+
		"{ rmdir .nodejoin/agent; ln -s %s .nodejoin/agent; }\nexec %s \"$@\"\n", elsewhere, chmod))
	if err := os.Chmod(shim, 0o700); err != nil {
		t.Fatal(err)
	}
	a := newAgentFile(Target{OS: "linux"}, "", p.digest)
	script := fmt.Sprintf("n=%d; f=%s; %s", len(p.tgz), agentbin.TGZ, a.unpack())
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.Stdin = home, bytes.NewReader(p.tgz)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit code 1\n%s", err, out)
	}
	if at, err := os.Readlink(filepath.Join(home, ".nodejoin", "agent")); at != elsewhere {
		t.Errorf("the folder was not replaced: %q, %v", at, err)
	}
	if list, err := os.ReadDir(elsewhere); err != nil || len(list) > 0 {
		t.Errorf("where the link leads there is %v, %v", list, err)
	}
}

// TestAnnounced: a shell that waits for the agent has dd skip the long line of the first request, and no other line. A
// dd without fullblock skips nothing, and read takes the line.
func TestAnnounced(t *testing.T) {
	p, err := packedSelf()
	if err != nil {
		t.Fatal(err)
	}
	dd, err := exec.LookPath("dd")
	if err != nil {
		t.Fatal(err)
	}
	for name, does := range map[string]string{"dd": "exec " + dd + ` "$@"`, "a dd without flags": "exit 1"} {
		t.Run(name, func(t *testing.T) {
			home, bin := t.TempDir(), t.TempDir()
			a := newAgentFile(Target{OS: "linux", DataDir: t.TempDir()}, "", p.digest)
			log := filepath.Join(bin, "log")
			shim := writeText(t, filepath.Join(bin, "dd"), "#!/bin/sh\necho \"$*\" >>"+log+"\n"+does+"\n")
			if err := os.Chmod(shim, 0o700); err != nil {
				t.Fatal(err)
			}
			var sent sentBytes
			w := &process{Channel: &sent}
			w.announce.Store(true)
			long := strings.Repeat("a 1 ]} ", announceFrom) + "\n"
			for _, line := range []string{long, "short\n", long} {
				if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
					t.Fatal(n, err)
				}
			}
			_, _ = fmt.Fprintf(&sent, "%s %d %s %x\n%s", wire.PackedFollows, len(p.tgz), agentbin.TGZ,
				sha256.Sum256(p.tgz), p.tgz)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", a.sent(nil))
			cmd.Dir, cmd.Stdin = home, &sent.Buffer
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if list, err := agentsIn(home); err != nil || len(list) != 1 {
				t.Errorf("%v, %v: want the agent", list, err)
			}
			ran, _ := os.ReadFile(log)
			if skips := strings.Count(string(ran), " count=1 "); skips != 1 ||
				!strings.Contains(string(ran), fmt.Sprintf("bs=%d count=1 ", len(long))) {
				t.Errorf("dd ran with\n%s\nwant it to skip %d bytes once; %v\n%s", ran, len(long), err, out)
			}
		})
	}
}

// sentBytes is a channel that keeps what is written.
type sentBytes struct {
	ssh.Channel
	bytes.Buffer
}

func (s *sentBytes) Write(b []byte) (int, error) { return s.Buffer.Write(b) }
func (s *sentBytes) Read(b []byte) (int, error)  { return s.Buffer.Read(b) }

// TestUnpackThroughNoLink: who could write into the folder until it was closed, and has read the name of the file that
// is about to be written, gets nothing written through a link of that name.
func TestUnpackThroughNoLink(t *testing.T) {
	p, err := packedSelf()
	if err != nil {
		t.Fatal(err)
	}
	a := newAgentFile(Target{OS: "linux"}, "", p.digest)
	unpack := a.unpack()
	for _, link := range []struct{ suffix, to string }{
		{".p" + wire.Leftover, ""}, {wire.Leftover, ""},
		{".p" + wire.Leftover, os.DevNull}, {wire.Leftover, os.DevNull}, // set -C writes there
	} {
		suffix := link.suffix
		home, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "file")
		writeText(t, elsewhere, "precious")
		to := cmp.Or(link.to, elsewhere)
		if err := errors.Join(os.MkdirAll(filepath.Join(home, filepath.Dir(a.temp)), 0o777),
			os.Symlink(to, filepath.Join(home, a.temp+suffix))); err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf("n=%d; f=%s; %s", len(p.tgz), agentbin.TGZ, unpack)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir, cmd.Stdin = home, bytes.NewReader(p.tgz)
		out, err := cmd.CombinedOutput()
		if b, _ := os.ReadFile(elsewhere); string(b) != "precious" || err == nil {
			t.Errorf("%s: %d bytes were written, %v\n%s", suffix, len(b), err, out)
		}
		if strings.Contains(string(out), wire.PackedTaken) {
			t.Errorf("%s to %s: it takes the agent\n%s", suffix, to, out)
		}
	}
}
