package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
)

func head(n int) Head {
	return Head{Holder: steps.LockHolder{Run: fmt.Sprintf("20260102-%06d-ABCDEF", n), Command: "apply"}, Version: "1",
		Plan: "/p/my plan", Nodes: []string{"a"}}
}

func TestHistory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state[1]")
	w, err := Begin(root, head(1))
	if err != nil {
		t.Fatal(err)
	}
	w.Emit(event.StepDone{Host: "a", Step: "s", Result: "changed", Action: "create", Duration: time.Second, Attempt: 2})
	w.Emit(event.StepProgress{Host: "a", Step: "s", Done: 1, Total: 9})
	w.Emit(event.StepProgress{Host: "a", Step: "s", Note: "try 1 of 3 failed"})
	if err := w.Finish(End{ExitCode: 1, Hosts: []Host{{Node: "a", Changed: []string{"s"}}}}); err != nil {
		t.Fatal(err)
	}
	r, err := Find(root, head(1).Holder.Run)
	if err != nil || r.End == nil || r.End.ExitCode != 1 || r.End.Hosts[0].Changed[0] != "s" ||
		r.Head.Holder.Command != "apply" || len(r.Events) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if e, err := event.Decode(r.Events[0].Event); err != nil || e.(event.StepDone).Attempt != 2 ||
		r.Events[0].At.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := Find(root, head(2).Holder.Run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	path := filepath.Join(Dir(root, "/p/my plan", ""), head(1).Holder.Run+suffix)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}

	// After a run was killed during a write, its complete lines are read.
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Find(root, head(1).Holder.Run); err != nil || r.End != nil || len(r.Events) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The number of runs and their sizes are limited.
func TestBounds(t *testing.T) {
	root := t.TempDir()
	for n := range Keep + 5 {
		w, err := Begin(root, head(n))
		if err != nil {
			t.Fatal(err)
		}
		if n == Keep+4 {
			for range maxFile/1000 + 100 {
				w.Emit(event.Warning{Summary: strings.Repeat("x", 1000)})
			}
		}
		if err := w.Finish(End{}); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Runs(root, "/p/my plan", "")
	if err != nil || len(runs) != Keep || runs[0].Head.Holder.Run != head(5).Holder.Run {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	last := runs[Keep-1]
	if b, _ := json.Marshal(last.Events); last.End == nil || !last.End.Cut || len(b) > maxFile+2000 {
		t.Errorf("%+v, %d bytes", last.End, len(b))
	}
	if other, err := Runs(root, "/q/my plan", ""); err != nil || len(other) != 0 {
		t.Errorf("another plan: %v, %v", other, err)
	}
	if _, err := Begin(root, Head{Holder: steps.LockHolder{Run: "../x"}}); err == nil {
		t.Error("a name that leads elsewhere is accepted")
	}
}
