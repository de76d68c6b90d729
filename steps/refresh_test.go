package steps_test

import (
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
)

// A run that looked before another one wrote the record goes on from what that one wrote.
func TestRecordIsReadUnderTheLock(t *testing.T) {
	h := openHost(t, "windows")
	applied(t, h, programs, machineOf("one"))
	tried(t, h, machineOf("two")) // a run that was interrupted with its trial open
	late := steps.NewExecutor(steps.Kinds(), h, programs, func(event.Event) {})
	_, err := late.Check(t.Context(), steps.Request{Node: "win-1", Steps: machineOf("three")})
	must(t, err)
	other := tried(t, h, append(machineOf("three"), spec("file", "extra", &steps.File{Path: `C:\extra.txt`, Content: "b"})))
	must(t, other.Verified(t.Context()))

	must(t, late.Refresh(t.Context()))
	_, err = late.Apply(t.Context(), steps.Request{Node: "win-1", Steps: append(machineOf("three"), spec("file", "own", &steps.File{Path: `C:\own.txt`, Content: "a"}))})
	must(t, err)
	f, err := h.Facts(t.Context())
	must(t, err)
	rec, err := steps.LoadRecord(t.Context(), h, f)
	must(t, err)
	if _, ok := rec.Owned[`file:C:\extra.txt`]; !ok {
		t.Error("what the other run made is claimed no more")
	}
	if rec.Trial != nil {
		t.Error("the trial that the other run has ended is open again")
	}
}
