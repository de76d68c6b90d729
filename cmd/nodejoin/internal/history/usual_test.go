package history

import (
	"fmt"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
)

// TestUsual: the usual time of a step is that on the same host, or else that on other hosts. Failures do not count.
func TestUsual(t *testing.T) {
	root := t.TempDir()
	for i, took := range []time.Duration{2, 9, 3} {
		run := fmt.Sprintf("20260102-03040%d-ABCDEF", i)
		w, err := Begin(root, Head{Plan: "/p", Holder: steps.LockHolder{Run: run}})
		if err != nil {
			t.Fatal(err)
		}
		w.Emit(event.StepDone{Host: "a", Step: "x", Result: "changed", Action: "create", Duration: took * time.Second})
		w.Emit(event.StepDone{Host: "b", Step: "x", Result: "failed", Action: "create", Duration: time.Hour})
		w.Emit(event.StepDone{Host: "b", Step: "gate", Result: "unchanged", Action: "wait", Duration: time.Minute})
		if err := w.Finish(End{}); err != nil {
			t.Fatal(err)
		}
	}
	usual := Usual(root, "/p", "")
	for _, c := range []struct {
		host, step string
		want       time.Duration
	}{{"a", "x", 3 * time.Second}, {"b", "x", 3 * time.Second}, {"a", "gate", time.Minute}, {"a", "new", -1}} {
		if have := usual(c.host, c.step); have != c.want {
			t.Errorf("%s %s: have %s, want %s", c.host, c.step, have, c.want)
		}
	}
	if have := Usual(root, "/other", "")("a", "x"); have != -1 {
		t.Errorf("another plan: %s", have)
	}
}
