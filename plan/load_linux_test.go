package plan_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"nodejoin/plan"
)

// nobody is the unprivileged user (Debian base-passwd, and the kernel's overflowuid).
const nobody = 65534

// asNobody calls f on a thread that reads files as an unprivileged user: root may read everything. The thread ends
// with f.
func asNobody(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0) // setfsuid(2): without root it changes nothing
		f()
	}()
	<-done
}

// TestLoadUnreadable: a file that the user may not read is refused.
func TestLoadUnreadable(t *testing.T) {
	dir, err := os.MkdirTemp("", "nodejoin-plan-") // not t.TempDir: its parent is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a"+plan.Suffix)
	writeFile(t, file, minimal)
	var out *plan.Compiled
	var diags string
	asNobody(func() { out, diags = load(t, dir, plan.Options{Version: "0.1.0"}) })
	if out == nil {
		t.Fatalf("a file that all may read: %s", diags)
	}
	if err := os.Chmod(file, 0); err != nil {
		t.Fatal(err)
	}
	asNobody(func() { out, diags = load(t, dir, plan.Options{Version: "0.1.0"}) })
	if out != nil || !strings.Contains(diags, "permission denied") {
		t.Errorf("have %q", diags)
	}
}
