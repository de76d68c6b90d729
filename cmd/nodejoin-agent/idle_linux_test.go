package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

const (
	maxIdleShare  = 0.005 // of a core
	maxIdleMemory = 30 << 20
)

// TestIdleCost: the agent, as the service of a healthy node, uses less than 0.5 % of a core and 30 MB. Here it checks
// its node ten times a second; in production it checks once a minute.
func TestIdleCost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go tool")
	}
	dir := t.TempDir()
	agent := filepath.Join(dir, "agent")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", agent, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	var list []steps.Spec
	content := strings.Repeat("a line of a configuration\n", 200)
	for _, name := range strings.Fields("a b c d e f g h i j k l m") {
		path := filepath.Join(dir, "conf", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		list = append(list, steps.Spec{ID: name, Kind: "file",
			Args: steps.MustArgs(&kinds.File{Path: path, Content: content})})
	}
	const interval = 100 * time.Millisecond
	plan := filepath.Join(data, "node.json")
	text := steps.BootPlan{Node: "lin-1", Steps: list,
		Guard: &steps.Guard{Interval: interval, Folders: []string{dir}}}.Text()
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	run := exec.CommandContext(ctx, agent, "node", "--name", "nodejoin-node", "--data", data, "--steps", plan,
		"--log", filepath.Join(dir, "node.log"))
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	var state steps.GuardState
	for began := time.Now(); state.Checks < 50 && time.Since(began) < 40*time.Second; {
		time.Sleep(interval)
		if b, err := os.ReadFile(filepath.Join(data, "guard.json")); err == nil {
			if err := json.Unmarshal(b, &state); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	err := run.Wait()
	if log, _ := os.ReadFile(filepath.Join(dir, "node.log")); state.Checks < 50 || len(state.Problems) > 0 {
		t.Fatalf("%d checks, %v, %v\n%s", state.Checks, state.Problems, err, log)
	}
	cpu := run.ProcessState.UserTime() + run.ProcessState.SystemTime()
	share := cpu.Seconds() / float64(state.Checks) / time.Minute.Seconds()
	memory := run.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("%d checks of %d steps: %v of processor time, %.4f %% of a core at a check a minute, %d MiB", state.Checks,
		len(list), cpu, 100*share, memory>>20)
	if share > maxIdleShare || memory > maxIdleMemory {
		t.Errorf("%.4f %% of a core and %d MiB; at most %.1f %% and %d MiB", 100*share, memory>>20, 100*maxIdleShare,
			maxIdleMemory>>20)
	}
}
