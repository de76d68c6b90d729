package transport

import (
	"errors"
	"testing"

	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/sys/windows"
)

// TestWindowsAgent: keys come from the ssh-agent of Windows if no variable is set, or from the
// pipe that the variable names. If no agent runs, nothing is reported.
func TestWindowsAgent(t *testing.T) {
	for _, c := range []struct{ name, variable, pipe string }{
		{"of Windows", "", windowsAgent},
		{"named", `\\.\pipe\nodejoin-test-agent`, `\\.\pipe\nodejoin-test-agent`},
		{"named with slashes", "//./pipe/nodejoin-test-agent", `\\.\pipe\nodejoin-test-agent`},
		{"none", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SSH_AUTH_SOCK", c.variable)
			want := 0
			if c.pipe != "" {
				want = 1
				serveAgent(t, c.pipe)
			}
			l := &login{}
			defer l.close()
			if have := l.openAgent(t.Context(), ""); len(have) != want || len(l.skipped) > 0 {
				t.Errorf("%d keys, want %d; skipped %q", len(have), want, l.skipped)
			}
		})
	}
}

func serveAgent(t *testing.T, pipe string) {
	t.Helper()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: ed25519Key(t)}); err != nil {
		t.Fatal(err)
	}
	name, err := windows.UTF16PtrFromString(pipe)
	if err != nil {
		t.Fatal(err)
	}
	h, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX, windows.PIPE_TYPE_BYTE|windows.PIPE_WAIT, 1,
		4<<10, 4<<10, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := windows.ConnectNamedPipe(h, nil); err != nil && !errors.Is(err, windows.ERROR_PIPE_CONNECTED) {
			t.Error(err)
		}
		_ = agent.ServeAgent(ring, pipeEnd(h)) // until the client closes its end
		_ = windows.CloseHandle(h)
	}()
	t.Cleanup(func() { <-done })
}

// pipeEnd is the server's end of a pipe, without overlapped calls.
type pipeEnd windows.Handle

func (p pipeEnd) Read(b []byte) (int, error) {
	var n uint32
	err := windows.ReadFile(windows.Handle(p), b, &n, nil)
	return int(n), err
}

func (p pipeEnd) Write(b []byte) (int, error) {
	var n uint32
	err := windows.WriteFile(windows.Handle(p), b, &n, nil)
	return int(n), err
}
