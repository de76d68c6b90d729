package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
)

// frugal runs the program of this machine over the hosts of the quickstart and bounds the memory that it takes.
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
	debug.FreeOSMemory() // what this process has now counts for the other until it starts (exec_mmap of Linux)
	cmd := exec.CommandContext(ctx, program, "plan", filepath.Join(dir, "plan", "quickstart.join.hcl"))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("plan of the quickstart: %w\n%s", err, text)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil
	}
	if have := usage.Maxrss * 1024; have > int64(r.memory) { // in KiB (getrusage(2))
		return fmt.Errorf("plan of the quickstart took %d bytes of memory, the limit is %d", have, r.memory)
	}
	return nil
}
