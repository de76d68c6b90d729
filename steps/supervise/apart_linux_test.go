package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestApart: the program leads a session of its own, has the given environment and no input, and its end is told.
func TestApart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := Apart([]string{"/bin/sh", "-c", `cat; echo "pid $$ $A"; cat /proc/$$/stat; exit 4`},
		[]string{"A=b", "PATH=" + os.Getenv("PATH")}, log)
	if err = errors.Join(err, log.Close()); err != nil { // the program has it still
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != 4 {
		t.Errorf("ended with %v", err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(text)) // pid PID b PID (sh) S PPID PGRP SESSION
	if len(words) < 9 || words[2] != "b" {
		t.Fatalf("it printed %q", text)
	}
	if pid, group, session := words[1], words[7], words[8]; group != pid || session != pid {
		t.Errorf("process %s has the group %s and the session %s", pid, group, session)
	}
}
