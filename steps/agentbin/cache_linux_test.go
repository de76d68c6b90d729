package agentbin

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/wait"
)

// TestFullCache: a cache that is full, cannot be written or cannot be read is one error, which names the folder and
// says what to do. Nothing is left in it, and once there is room it is used.
func TestFullCache(t *testing.T) {
	p := tgz(t, strings.Repeat("the agent ", 1_000_000))
	p.Data = append(p.Data, make([]byte, 1<<20)...) // what follows the archive does not count
	for name, c := range map[string]struct {
		options string
		flags   uintptr
		code    steps.Code
		says    string
	}{
		"no room for the packed one":   {"size=512k", 0, steps.CodeNoSpace, "is full"},
		"no room for the unpacked one": {"size=4m", 0, steps.CodeNoSpace, "is full"},
		"read-only":                    {"size=64m", syscall.MS_RDONLY, steps.CodeFailed, "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("none", dir, "tmpfs", c.flags, "mode=700,"+c.options); err != nil {
				t.Skipf("no volume can be mounted: %v", err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			})
			path := carried(dir, p)
			err := Unpack(path, p.Digest)
			var se *steps.Error
			if !errors.As(err, &se) || se.Code != c.code || !strings.Contains(se.Summary, c.says) ||
				!strings.Contains(se.Detail, dir) || !strings.Contains(se.Remedy, "XDG_CACHE_HOME") {
				t.Fatalf("%v, want one that names the folder and says what to do", err)
			}
			t.Logf("%s: %s; %s", se.Summary, se.Detail, se.Remedy)
			if again := Unpack(path, p.Digest); again == nil || again.Error() != err.Error() {
				t.Errorf("the second time: %v", again)
			}
			if left, err := filepath.Glob(filepath.Join(dir, unwritten+"*")); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("an agent that is not whole: %v", err)
			}
			if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
				t.Fatal(err)
			}
			if err := Unpack(path, p.Digest); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKilledWhileWriting: a process that is killed while it writes agents leaves none that is not whole, and nothing
// else once the next has written.
func TestKilledWhileWriting(t *testing.T) {
	p := tgz(t, strings.Repeat("the agent ", 1_000_000))
	if dir := os.Getenv("AGENTS_UNTIL_KILLED"); dir != "" {
		path := filepath.Join(dir, "agent")
		for {
			fmt.Println("writing")
			if err := errors.Join(keepPacked(path, p), unpack(path, p.Digest), os.Remove(path),
				os.Remove(path+TGZ)); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "agent")
	unfinished := 0
	for i := range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileWriting$")
		cmd.Env = append(os.Environ(), "AGENTS_UNTIL_KILLED="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		_ = wait.Pause(t.Context(), time.Duration(i)*3*time.Millisecond) // somewhere within its first rounds
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if left, err := filepath.Glob(filepath.Join(dir, unwritten+"*")); err != nil {
			t.Fatal(err)
		} else if unfinished += len(left); len(left) > 1 {
			t.Errorf("%v are left", left)
		}
		if _, err := os.Stat(path); err == nil && !holdsAgent(path, "", p.Digest) {
			t.Error("an agent that is not whole is in its place")
		}
		_ = os.Remove(path + TGZ) // that there is something to write
		if err := errors.Join(keepPacked(path, p), unpack(path, p.Digest)); err != nil {
			t.Fatal(err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 3 {
			t.Fatalf("%v, %v: want the agent, the packed one and the lock", list, err)
		}
	}
	if unfinished == 0 {
		t.Error("none was killed while it wrote")
	}
}
