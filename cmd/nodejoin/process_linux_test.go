package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A run that was killed is gone even if its process was not reaped: its Lease does not
// block the next run.
func TestKilledProcessIsGone(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // it was killed
	if !processRuns(cmd.Process.Pid) || !processRuns(os.Getpid()) {
		t.Error("processes that run are taken for ended")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for processRuns(cmd.Process.Pid) {
		if time.Now().After(deadline) {
			t.Fatal("the zombie counts as a process that runs")
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}
