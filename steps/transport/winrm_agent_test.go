package transport

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nodejoin/steps/transport/winrmtest"
	"nodejoin/steps/transport/wire"
)

// curlArgs takes a command line of curl.exe apart: what it is asked, the file and the address.
var curlArgs = regexp.MustCompile(`^curl\.exe (.+) -o (\S+) (https://[^/]+)(/\S+)$`)

// TestWinRMAgentFetched: the machine fetches the agent from the controller; where it cannot, or what it has is another
// file, the agent is sent, and the other file never started. It is asked once.
func TestWinRMAgentFetched(t *testing.T) {
	agents := packedAgent(t, "windows")
	for name, tt := range map[string]struct {
		curl      func(m *winrmMachine, run func(line string) int, line string) int // nil = as it is
		sent      bool
		unreached bool
	}{
		"fetched": {},
		"by curl itself": {curl: func(m *winrmMachine, _ func(string) int, line string) int {
			program, err := exec.LookPath("curl")
			if err != nil {
				t.Skip("curl is not installed")
			}
			cmd := exec.Command(program, strings.Fields(strings.ReplaceAll(strings.TrimPrefix(line, "curl.exe "),
				`\`, "/"))...)
			cmd.Dir, cmd.Stderr = m.home, os.Stderr
			_ = cmd.Run()
			return cmd.ProcessState.ExitCode()
		}},
		"no curl": {sent: true, curl: func(*winrmMachine, func(string) int, string) int { return 9009 }},
		"nothing answers": {sent: true, unreached: true,
			curl: func(_ *winrmMachine, run func(string) int, line string) int {
				return run(curlArgs.ReplaceAllString(line, "curl.exe $1 -o $2 https://127.0.0.1:1$4"))
			}},
		"another pin": {sent: true, curl: func(_ *winrmMachine, run func(string) int, line string) int {
			return run(regexp.MustCompile(`sha256//....`).ReplaceAllString(line, "sha256//AAAA"))
		}},
		"another token": {sent: true, curl: func(_ *winrmMachine, run func(string) int, line string) int {
			return run(line[:len(line)-4] + "AAAA")
		}},
		"cut": {sent: true, curl: func(m *winrmMachine, run func(string) int, line string) int {
			code := run(line)
			path := filepath.Join(m.home, strings.ReplaceAll(curlArgs.FindStringSubmatch(line)[2], `\`, "/"))
			if err := os.Truncate(path, 100<<10); err != nil {
				t.Error(err)
			}
			return code
		}},
		"another file": {sent: true, curl: func(m *winrmMachine, run func(string) int, line string) int {
			dir := t.TempDir()
			writeText(t, filepath.Join(dir, "agent"), "#!/bin/sh\ntouch "+m.drive+"/started\n")
			path := filepath.Join(m.home, strings.ReplaceAll(curlArgs.FindStringSubmatch(line)[2], `\`, "/"))
			if out, err := exec.Command("tar", "-czf", path, "-C", dir, "agent").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			return 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			sent, fetched := 0, 0
			var m *winrmMachine
			m = newWinRM(t, func(run winrmtest.Run) winrmtest.Run {
				return winrmtest.Joined(func(ctx context.Context, line string, in io.Reader, out, errs io.Writer) int {
					plain := func(line string) int { return run(ctx, line, in, out, errs) }
					switch {
					case strings.HasPrefix(line, "tar.exe -xozmf - "):
						sent++
					case curlArgs.MatchString(line):
						fetched++
						if tt.curl != nil {
							return tt.curl(m, plain, line)
						}
					}
					return plain(line)
				})
			})
			var made calls
			c := m.config(m.Addr)
			c.Bounds = made.bound
			conn, err := DialWinRM(t.Context(), c, agents)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if err := stage(t.Context(), conn, artifact(t, 1000), nil); err != nil {
				t.Fatal(err)
			}
			file := conn.(*winrmConn).file
			path := filepath.Join(m.home, strings.ReplaceAll(file.remote, `\`, "/"))
			if have, err := fileDigest(path); err != nil || have != file.digest {
				t.Errorf("the agent on the machine has digest %s (%v), want %s", have, err, file.digest)
			}
			if want := map[bool]int{true: 1}[tt.sent]; sent != want || fetched != 1 {
				t.Errorf("fetched %d times and sent %d times, want 1 and %d", fetched, sent, want)
			}
			if have := made.count(wire.MethodBlobFetch) == 0; have != tt.unreached {
				t.Errorf("artifacts: the machine was not asked to fetch them: %v, want %v", have, tt.unreached)
			}
			for _, left := range []string{path + wire.Leftover, filepath.Join(m.drive, "started")} {
				if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is there: %v", left, err)
				}
			}
		})
	}
}
