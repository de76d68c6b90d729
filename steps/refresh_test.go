package steps_test

import (
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/record"
)

// A run that looked before another one wrote the record goes on from what that one wrote.
func TestRecordIsReadUnderTheLock(t *testing.T) {
	h := openHost(t, "windows")
	applied(t, h, programs, machineOf("one"))
	withSnapshot(t, h, machineOf("two")) // a run that was interrupted with its snapshot open
	late := steps.NewExecutor(h, programs, func(event.Event) {})
	_, err := late.Check(t.Context(), steps.Request{Node: "win-1", Steps: machineOf("three")})
	must(t, err)
	other := withSnapshot(t, h, append(machineOf("three"), spec("file", "extra", &steps.File{Path: `C:\extra.txt`, Content: "b"})))
	must(t, other.Verified(t.Context()))

	must(t, late.Refresh(t.Context()))
	_, err = late.Apply(t.Context(), steps.Request{Node: "win-1", Steps: append(machineOf("three"), spec("file", "own", &steps.File{Path: `C:\own.txt`, Content: "a"}))})
	must(t, err)
	f, err := h.Facts(t.Context())
	must(t, err)
	rec, err := record.Load(t.Context(), h, f)
	must(t, err)
	if _, ok := rec.Claims[record.File.Of(`C:\extra.txt`)]; !ok {
		t.Error("what the other run made is claimed no more")
	}
	if rec.Snapshot != nil {
		t.Error("the snapshot that the other run has ended is open again")
	}
}
