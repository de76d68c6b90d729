//go:build linux

package linux

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nodejoin/steps/host"
)

// A shim is killed with its containers, even if its file has been replaced; a process of another program stays.
func TestEndProcesses(t *testing.T) {
	h, ctx, dir := newHost(t), testContext(t), t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("no /bin/sh to copy")
	}
	path := filepath.Join(dir, "containerd-shim-runc-v2")
	write := func() {
		if err := h.WriteFile(ctx, path, strings.NewReader(string(shell)),
			host.WriteOptions{Access: host.AccessProgram}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	other := exec.CommandContext(ctx, "/bin/sleep", "600")
	shim := exec.CommandContext(ctx, path, "-c", "setsid sleep 600 & echo $!; wait")
	out, err := shim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*exec.Cmd{other, shim} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	container, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil { // as an archive of another version does
		t.Fatal(err)
	}
	write()
	if pids, err := h.Processes(ctx, path); err != nil || len(pids) != 1 || pids[0] != shim.Process.Pid {
		t.Errorf("the processes: %v, %v", pids, err)
	}
	if err := h.EndProcesses(ctx, path); err != nil {
		t.Fatal(err)
	}
	if Runs(shim.Process.Pid) || Runs(container) {
		t.Error("the shim or its container still runs")
	}
	if !Runs(other.Process.Pid) {
		t.Error("another program was killed")
	}
	if pids, err := h.Processes(ctx, path); err != nil || len(pids) > 0 {
		t.Errorf("the processes afterwards: %v, %v", pids, err)
	}
	if err := h.Remove(ctx, path); err != nil {
		t.Error(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := h.Processes(ctx, self); err != nil || slices.Contains(pids, os.Getpid()) {
		t.Errorf("the other processes of this program: %v, %v", pids, err)
	}
}
