package transport

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gssh "github.com/gliderlabs/ssh"

	"nodejoin/steps/transport/wire"
)

// TestBashAsDefaultShell: to a POSIX shell, which may be the default shell of OpenSSH on
// Windows, a backslash is not a separator. The agent is still found there, and pushed only once.
func TestBashAsDefaultShell(t *testing.T) {
	m := newMachine(t)
	c := m.config(m.addr)
	c.OS, c.DataDir = "windows", `C:\ProgramData\nodejoin`
	for _, want := range []string{"pushing_agent agent_sent", ""} {
		var phases []string
		c.Notify = func(state, _ string) { phases = append(phases, state) }
		conn := m.dial(t, c)
		check, err := Do(t.Context(), conn, wire.Check, directories(t.TempDir(), 2), nil)
		if err != nil || len(check.Results) != 2 {
			t.Fatalf("%+v, %v", check, err)
		}
		if have := strings.Join(phases, " "); have != want {
			t.Errorf("phases %q, want %q", have, want)
		}
	}
	if list, err := agentsIn(m.home); err != nil || len(list) != 1 {
		t.Errorf("%v, %v: want one agent", list, err)
	}
}

// TestAgentThatDoesNotStartOnWindows: the error reports why the first path failed, and where the
// default shell is set.
func TestAgentThatDoesNotStartOnWindows(t *testing.T) {
	m := newMachine(t)
	// The agent exits with this status before it sends anything, like one that a virus scanner stops.
	shell := func(s gssh.Session) {
		if strings.Contains(s.RawCommand(), `\`) {
			_, _ = io.WriteString(s.Stderr(), "blocked by your administrator")
		} else {
			_, _ = io.WriteString(s.Stderr(), "'.nodejoin' is not recognized")
		}
		_ = s.Exit(1)
	}
	m.Handler = shell
	c := m.config(m.addr)
	c.OS, c.DataDir = "windows", `C:\ProgramData\nodejoin`
	_, err := Do(t.Context(), m.dial(t, c), wire.Check, directories(t.TempDir(), 1), nil)
	var ce *ConnectError
	if !errors.As(err, &ce) || !strings.Contains(ce.Detail, "blocked by your administrator") ||
		!strings.Contains(ce.Remedy, "DefaultShell") {
		t.Errorf("%v, want what the machine said", err)
	}
}

// TestCrashOfTheAgent: the error contains what an agent wrote to its file when it crashed.
func TestCrashOfTheAgent(t *testing.T) {
	m := newMachine(t)
	m.place(t)
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(m.dir, "crash in a call"), "")
	_, err := Do(t.Context(), m.dial(t, m.config(m.addr)), wire.Apply, directories(filepath.Join(t.TempDir(), "crash"),
		1), nil)
	if !errors.Is(err, ErrDropped) || !strings.Contains(err.Error(), "exit status 2: panic: the last words") {
		t.Errorf("%v, want the last words", err)
	}
}
