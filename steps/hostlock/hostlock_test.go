package hostlock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nodejoin/steps"
)

func holder(run string) steps.LockHolder {
	return steps.LockHolder{Run: run, User: "alice", Host: "ctl", PID: 7,
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Command: "apply"}
}

func TestOneRunHoldsIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	one, two := New(dir), New(dir)
	ctx := t.Context()
	if r, err := one.Take(ctx, steps.LockRequest{Holder: holder("1")}); err != nil || r.By != nil || r.Left != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := one.Take(ctx, steps.LockRequest{Holder: holder("1")}); err != nil || r.By != nil {
		t.Fatalf("again: %+v, %v", r, err)
	}
	r, err := two.Take(ctx, steps.LockRequest{Holder: holder("2")})
	if err != nil || r.By == nil || *r.By != holder("1") || two.Held() {
		t.Fatalf("the second has %+v, %v", r, err)
	}
	if err := two.Release(); err != nil || !one.Held() {
		t.Fatal(err)
	}

	// A wait ends with its context, and with the release.
	waiting, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := two.Take(waiting, steps.LockRequest{Holder: holder("2"), Wait: time.Minute}); !errors.Is(err,
		context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		r, err := two.Take(ctx, steps.LockRequest{Holder: holder("2"), Wait: time.Minute})
		if err == nil && (r.By != nil || r.Left != nil) {
			err = errors.New("not taken, or taken for left")
		}
		got <- err
	}()
	if err := one.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if err := two.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, HolderFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the holder's file stays: %v", err)
	}
}

// A holder's file without the lock: its run did not end. It is said, and no hindrance.
func TestLeft(t *testing.T) {
	dir := t.TempDir()
	l := New(dir)
	if err := l.write(holder("1")); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Take(t.Context(), steps.LockRequest{Holder: holder("1")}); err != nil || r.Left != nil {
		t.Fatalf("our own: %+v, %v", r, err)
	}
	if err := l.Abandon(); err != nil || l.Held() {
		t.Fatal(err)
	}
	l = New(dir)
	if r, err := l.Take(t.Context(), steps.LockRequest{Holder: holder("2")}); err != nil || r.By != nil ||
		r.Left == nil || *r.Left != holder("1") {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"", "{", "[]"} {
		if err := os.WriteFile(filepath.Join(dir, HolderFile), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := l.Take(t.Context(), steps.LockRequest{Holder: holder("3")}); err != nil || r.Left == nil ||
			r.Left.Run != "unknown" {
			t.Errorf("%q: %+v, %v", damaged, r, err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
