package executor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
)

// TestNoteAgain: a run that did not hear that it is noted notes itself again, and may know less of what it changed.
func TestNoteAgain(t *testing.T) {
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), OS: "linux"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := h.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := executor.NewExecutor(kinds.Catalog(), h, nil, nil)
	for _, n := range []struct {
		run     string
		changed []string
	}{{"r1", []string{"a", "b"}}, {"r2", []string{"c"}}, {"r1", []string{"a"}}} {
		note := executor.RunNote{Holder: steps.LockHolder{Run: n.run}, Changed: n.changed}
		if err := x.Note(t.Context(), note); err != nil {
			t.Fatal(err)
		}
	}
	notes, err := executor.Notes(t.Context(), h, f)
	if err != nil {
		t.Fatal(err)
	}
	var have [][]string
	for _, n := range notes {
		have = append(have, n.Changed)
	}
	if diff := cmp.Diff([][]string{{"b", "a"}, {"c"}}, have); diff != "" {
		t.Error(diff)
	}
}
