package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nodejoin/steps/event"
)

// TestLog: each line of the file is JSON, a host's text is never an escape sequence, and a second command appends.
func TestLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.log")
	var debug bytes.Buffer
	for range 2 {
		l, err := Open(file, &debug)
		if err != nil {
			t.Fatal(err)
		}
		l.Begin("nodejoin apply", "1", []string{"var"})
		for _, e := range []event.Event{event.HostState{Host: "a", State: "connecting"},
			event.StepStarted{Host: "a", Step: "x", Action: "create"}, event.StepProgress{Host: "a", Step: "x", Done: 1},
			event.StepDone{Host: "a", Step: "x", Result: "failed", Duration: time.Second, Detail: "\x1b[2Jbad"},
			event.Warning{Summary: "w"}} {
			l.Emit(e)
		}
		if err := l.End(1); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		var one struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Time == "" || one.Level == "" || one.Msg == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
	if len(lines) != 14 || strings.Contains(debug.String(), "\x1b") || !strings.Contains(debug.String(), "level=ERROR") {
		t.Errorf("%d lines\n%s", len(lines), debug.String())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("%v %v", info.Mode(), err)
	}
	var none *Log
	none.Begin("", "", nil)
	none.Emit(event.Warning{})
	if err := none.End(0); err != nil {
		t.Error(err)
	}
}

// TestLostLog: a log that cannot be written is an error at the end, whatever kind of file it is.
func TestLostLog(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	l, err := Open("/dev/full", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Emit(event.Warning{Summary: "w"})
	if err := l.End(0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	if l, err = Open("/dev/null", nil); err != nil || l.End(0) != nil {
		t.Errorf("a device: %v", err)
	}
}
