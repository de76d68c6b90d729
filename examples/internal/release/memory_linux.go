package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// measureCommand in front of a program and its arguments: run it, and print the memory that it took.
const measureCommand = "measure"

// frugal runs the program of this machine over one host of the quickstart and bounds the memory that it takes.
func (r *release) frugal(ctx context.Context, goos, arch, program string) error {
	if goos != runtime.GOOS || arch != runtime.GOARCH {
		return nil
	}
	dir, err := os.MkdirTemp("", "nodejoin-memory-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.CopyFS(filepath.Join(dir, "plan"), os.DirFS(filepath.Join("examples", "quickstart"))); err != nil {
		return err
	}
	least := math.MaxInt // the garbage collector runs sooner or later
	for range 3 {
		have, err := peak(ctx, program, "plan", "--target", "node.win-1",
			filepath.Join(dir, "plan", "quickstart.join.hcl"))
		if err != nil {
			return fmt.Errorf("plan of one host: %w", err)
		}
		least = min(least, have)
	}
	if least > r.memory {
		return fmt.Errorf("plan of one host took %d bytes of memory, the limit is %d", least, r.memory)
	}
	return nil
}

// peak is the memory, in bytes, that a program takes for itself at most, sampled each millisecond.
// The pages of its file do not count: Linux shares and drops them, and maps some MB more or fewer of them by chance.
func peak(ctx context.Context, args ...string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, self, append([]string{measureCommand}, args...)...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, said.Bytes())
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// measure is peak's new process.
func measure(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	most := 0
	often := time.NewTicker(time.Millisecond)
	defer often.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil && most == 0 {
				err = errors.New("it ended before its memory could be read")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Println(most)
			return err
		case <-often.C:
			most = max(most, own(cmd.Process.Pid))
		}
	}
}

// anonymous is the memory of a process that is not of files (proc_pid_status(5)), in KiB.
var anonymous = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// own is the memory that a process has for itself, in bytes; 0 if it has ended.
func own(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // not there after the end
	m := anonymous.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1])) // digits
	return n << 10
}
