package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// TestCutLog: a log over its limit is cut while its program has it open. What the program writes
// next is at the beginning of the log.
func TestCutLog(t *testing.T) {
	dir, err := os.MkdirTemp("", "nodejoin-test")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "containerd.log")
	if cut, err := cutLog(log, 10); err != nil || cut {
		t.Errorf("no log: %v, %v", cut, err)
	}
	program, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) // as containerd opens it
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		write          string
		cut            bool
		log, olderText string
	}{
		{"0123456789", false, "0123456789", ""},
		{"abc", true, "", "0123456789abc"},
		{"def", false, "def", "0123456789abc"},
		{"0123456789", true, "", "def0123456789"},
	} {
		if _, err := program.WriteString(step.write); err != nil {
			t.Fatal(err)
		}
		if cut, err := cutLog(log, 10); err != nil || cut != step.cut {
			t.Errorf("after %q: %v, %v", step.write, cut, err)
		}
		have, err := os.ReadFile(log)
		older, _ := os.ReadFile(log + olderLog)
		if err != nil || string(have) != step.log || string(older) != step.olderText {
			t.Errorf("after %q: %q and %q, %v", step.write, have, older, err)
		}
	}
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{log, log + olderLog, dir} { // Wine 8 lacks the call that t.TempDir removes with
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func TestEndlessLogs(t *testing.T) {
	plan := steps.BootPlan{Steps: []steps.Spec{
		spec("containerd", "service_running",
			&kinds.ServiceRunning{Name: "containerd", Log: `C:\var\log\containerd\containerd.log`}),
		spec("kubelet", "service_running", &kinds.ServiceRunning{Name: "kubelet", Log: `C:\var\log\kubelet\kubelet.log`}),
		spec("b", "http_ready", &kinds.HTTPReady{URL: "http://127.0.0.1:1/", Service: "containerd", Log: "x"}),
	}}
	if have := strings.Join(endlessLogs(plan), " "); have != `C:\var\log\containerd\containerd.log` {
		t.Errorf("logs %q", have)
	}
}
