//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"nodejoin/steps/host/hosttest"
)

// peakLimit is the most memory, in bytes, that a run over one machine may use.
const peakLimit = 40_000_000

// mainPeak runs a program and writes its peak memory to a file. Linux counts the parent's memory at the start as the
// program's (exec_mmap), so the parent is this new process and not the test process.
func mainPeak() {
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && err == nil {
		err = os.WriteFile(os.Args[1], []byte(strconv.FormatInt(usage.Maxrss<<10, 10)), 0o600) // in KiB (getrusage(2))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestPeakMemory: a machine behind SSH costs the controller little memory. nodejoin, built as for a release,
// plans and applies a file there.
func TestPeakMemory(t *testing.T) {
	hosttest.Release(t)
	c := newChaos(t)
	program := filepath.Join(c.root, "nodejoin")
	// Not -trimpath: it builds its agent from the source that it was compiled from.
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h := newChaosHosts(t, c.root, 1)[0]
	plan := filepath.Join(c.root, "x.join.hcl")
	text := h.node("ssh1") + fmt.Sprintf("step \"file\" \"f\" {\n  on = node.ssh1\n  path = %q\n  content = \"x\"\n}\n",
		filepath.Join(h.root, "f"))
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	peak := filepath.Join(c.root, "peak")
	for i, args := range [][]string{{"plan", plan}, {"plan", plan}, {"apply", "--auto-approve", plan}} {
		cmd := exec.CommandContext(t.Context(), "nodejoin-peak", append([]string{peak, program}, args...)...)
		cmd.Env = c.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		b, err := os.ReadFile(peak)
		if err != nil {
			t.Fatal(err)
		}
		have, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if t.Logf("%s: %d bytes", args[0], have); err != nil || i > 0 && have > peakLimit { // the first builds the agent
			t.Errorf("%s took %d bytes of memory, the limit is %d (%v)", args[0], have, peakLimit, err)
		}
	}
	h.repair()
}
