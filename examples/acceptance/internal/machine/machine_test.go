package machine

import (
	"context"
	"os"
	"testing"
	"time"
)

// TestReboot: a machine that reboots itself goes down. After the next boot it has its files, except those in
// memory.
func TestReboot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := Start(ctx, Options{Dir: t.TempDir(), Name: "again", Systemd: true, Network: "10.89.8"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, path := range []string{"/etc/kept", "/var/lib/kept", "/run/lost"} {
		if err := os.WriteFile(m.Path(path), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := m.Command(ctx, "sleep", "1000")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Wait() }() // it has ended with the machine
	if out, err := m.Run(ctx, "kill", "-s", "RTMIN+5", "1"); err != nil {
		t.Fatal(out, err)
	}
	if err := m.AwaitDown(ctx); err != nil {
		t.Fatal(err, m.Console())
	}
	if err := m.Boot(ctx); err != nil {
		t.Fatal(err, m.Console())
	}
	if err := m.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/etc/kept": true, "/var/lib/kept": true, "/run/lost": false} {
		if _, err := os.Stat(m.Path(path)); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
