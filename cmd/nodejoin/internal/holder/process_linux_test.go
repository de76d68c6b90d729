package holder

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A killed run counts as gone even if its process was not reaped, so its Lease does not
// block the next run.
func TestKilledProcessIsGone(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // it was killed
	if !Runs(cmd.Process.Pid) || !Runs(os.Getpid()) {
		t.Error("running processes count as ended")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for Runs(cmd.Process.Pid) {
		if time.Now().After(deadline) {
			t.Fatal("the zombie counts as running")
		}
		time.Sleep(time.Millisecond) // between two checks
	}
}
