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
	"runtime"
	"strconv"
	"strings"
	"syscall"
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
	least := math.MaxInt // how much of the program's file Linux maps at a time differs by some MB
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

// peak is the memory, in bytes, that a program takes at most. Linux counts for a program what its parent had when it
// started it (exec_mmap), so the parent is a new process, which has little.
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
	if err := cmd.Run(); err != nil {
		return err
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("no usage of resources")
	}
	_, err := fmt.Println(usage.Maxrss << 10) // in KiB (getrusage(2))
	return err
}
