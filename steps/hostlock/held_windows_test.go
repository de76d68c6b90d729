package hostlock

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"nodejoin/steps"
)

// TestHolderIsRead: a second run that reads whose the lock is, at that very moment, does not
// keep the first from writing its name or from taking it away.
func TestHolderIsRead(t *testing.T) {
	dir, err := os.MkdirTemp("", "nodejoin-test")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, HolderFile)
	read := func() { // as Go opens files: without FILE_SHARE_DELETE
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(300*time.Millisecond, func() { _ = f.Close() })
	}
	if err := os.WriteFile(path, []byte(`{"run":"old"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := New(dir)
	read()
	reply, err := l.Take(t.Context(), steps.LockRequest{Holder: steps.LockHolder{Run: "new"}})
	if err != nil || reply.By != nil || reply.Left == nil || reply.Left.Run != "old" {
		t.Fatalf("%+v, %v", reply, err)
	}
	read()
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{filepath.Join(dir, File), dir} {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}
