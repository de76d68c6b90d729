package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport/wire"
)

// noteFor bounds the notes at the end of a run.
const noteFor = 15 * time.Second

// sendNote has the machine keep a note, while it can be reached. release: that ends hold, too.
func (h *hostRun) sendNote(ctx context.Context, n executor.RunNote, release bool) {
	if h.conn == nil {
		return
	}
	_, err := do(ctx, h, wire.Note, executor.NoteRequest{RunNote: n, Release: release}, nil)
	if err != nil && !dropped(err) {
		h.emit(event.Warning{Host: h.node.Name, Summary: "the run is not noted on the machine", Detail: err.Error()})
	}
	h.holds = h.holds && (err != nil || !release)
}

// noteRun notes an apply that changed something, or failed in doing so, on the host and
// at the Node. It is not part of the plan, so a failure is a warning.
func (h *hostRun) noteRun(ctx context.Context, sum HostSummary, start time.Time) {
	unlocked := !h.holds || h.lockNext && !h.unanswered
	if unlocked || len(sum.Changed)+len(sum.Removed)+len(sum.Moved) == 0 && sum.Err == nil {
		return
	}
	ctx, cancel := kube.Bound(context.WithoutCancel(ctx), noteFor)
	defer cancel()
	n := h.runNote(ctx, sum, start)
	if !h.lockNext || h.conn != nil && h.lock(ctx) == nil {
		h.sendNote(ctx, n, true)
	}
	if h.api == nil || !needsCluster(h.node) {
		return
	}
	b, err := json.Marshal(struct {
		Time    time.Time `json:"time"`
		Version string    `json:"version"`
		Plan    string    `json:"plan"`
		Result  string    `json:"result"`
		Run     string    `json:"run"`
	}{n.Ended, n.Version, n.Plan, n.Result, n.Holder.Run})
	if err == nil {
		err = h.api.SetAnnotations(ctx, h.node.Name, map[string]string{kube.LastApply: string(b)}, nil)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // there may be no Node yet
		h.emit(event.Warning{Host: h.node.Name, Summary: "the run is not noted on the Node", Detail: err.Error()})
	}
}

// runNote is the note of a run with this summary.
func (h *hostRun) runNote(ctx context.Context, sum HostSummary, start time.Time) executor.RunNote {
	n := executor.RunNote{Holder: h.opt.Holder, Ended: time.Now().UTC().Truncate(time.Second), Took: time.Since(start),
		Version: h.opt.Version,
		Plan:    h.opt.PlanDigest, Result: "done", Changed: append([]string{}, sum.Changed...), Failed: sum.Failed}
	for _, r := range sum.Removed {
		n.Changed = append(n.Changed, r.Key.String())
	}
	for _, name := range sum.Moved {
		n.Changed = append(n.Changed, "moved from "+name)
	}
	if sum.Err != nil {
		n.Result, n.Error = "failed", steps.AsError(sum.Err).Summary
		if code := steps.AsError(sum.Err).Code; code == steps.CodeInterrupted || code == steps.CodePaused {
			n.Result = "interrupted"
		}
		if sum.Rollback != nil && sum.Rollback.Err == nil {
			n.Error += "; rolled back"
		}
	}
	n.RanVersions = h.versionSeen(ctx, sum)
	return n
}
