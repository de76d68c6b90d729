package kinds_test

import (
	"testing"

	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// A run whose check came before another run wrote the record continues from what that run wrote.
func TestRecordIsReadUnderTheLock(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Applied(t, h, programs, machineOf("one"))
	withSnapshot(t, h, machineOf("two")) // a run that was interrupted with its snapshot open
	late := executor.NewExecutor(kinds.Catalog(), h, programs, func(event.Event) {})
	_, err := late.Check(t.Context(), executor.Request{Node: "win-1", Steps: machineOf("three")})
	stepstest.Must(t, err)
	other := withSnapshot(t, h,
		append(machineOf("three"), stepstest.Spec("file", "extra", &kinds.File{Path: `C:\extra.txt`, Content: "b"})))
	stepstest.Must(t, other.Verified(t.Context()))

	stepstest.Must(t, late.Refresh(t.Context()))
	_, err = late.Apply(t.Context(),
		executor.Request{Node: "win-1",
			Steps: append(machineOf("three"), stepstest.Spec("file", "own", &kinds.File{Path: `C:\own.txt`, Content: "a"}))})
	stepstest.Must(t, err)
	f, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	rec, err := record.Load(t.Context(), h, f)
	stepstest.Must(t, err)
	if _, ok := rec.Claims[record.File.Of(`C:\extra.txt`)]; !ok {
		t.Error("what the other run made is claimed no more")
	}
	if rec.Snapshot != nil {
		t.Error("the snapshot that the other run has ended is open again")
	}
}
