//go:build linux

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// TestHostName renames a machine in a separate namespace of one thread, which ends with
// the test.
func TestHostName(t *testing.T) {
	runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWUTS); errors.Is(err, unix.EPERM) {
		t.Skip("only root can make a namespace")
	} else if err != nil {
		t.Fatal(err)
	}
	h := newHost(t)
	h.nameFile = filepath.Join(t.TempDir(), "hostname")
	check := func(want host.HostName) {
		t.Helper()
		have, err := h.HostName(t.Context())
		if err != nil || have != want {
			t.Errorf("the name is %+v (%v), want %+v", have, err, want)
		}
		if f, err := h.Facts(t.Context()); err != nil || f.Hostname != want.Now {
			t.Errorf("the facts say %q (%v), want %q", f.Hostname, err, want.Now)
		}
	}
	before, err := h.HostName(t.Context())
	if err != nil || before.Next != "" || before.Now == "" {
		t.Fatalf("%+v, %v", before, err)
	}
	check(before)
	for range 2 {
		if err := h.SetHostName(t.Context(), "lin-1"); err != nil {
			t.Fatal(err)
		}
		check(host.HostName{Now: "lin-1", Next: "lin-1"})
	}
	for text, next := range map[string]string{"": "", "# none\n\n": "",
		"# of the rack\n lin-2.example \nx\n": "lin-2.example"} {
		if err := os.WriteFile(h.nameFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		check(host.HostName{Now: "lin-1", Next: next})
	}
	if err := h.SetHostName(t.Context(), "a b"); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if err := h.SetHostName(t.Context(), "lin-3.example"); err != nil {
		t.Error(err)
	}
	check(host.HostName{Now: "lin-3.example", Next: "lin-3.example"})
	h.nameFile = t.TempDir()
	if _, err := h.HostName(t.Context()); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}
