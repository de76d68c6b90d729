package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"nodejoin/steps/event"
	"nodejoin/steps/kube"
	"nodejoin/steps/waves"
)

// wave lets Nodes begin by waves. Of several shards, a Lease has the state; its holder changes with each write, so
// that no write is lost.
type wave struct {
	budget
	limits waves.Limits

	mu    sync.Mutex
	state waves.State // of a run without other shards
}

// turn waits until the waves let the host begin. If why is not empty, it may not begin in this run: stopped says that
// the rollout has ended.
func (w *wave) turn(ctx context.Context, h *hostRun, stopped func() string) (why string) {
	if len(w.limits.Sizes) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, slotWait+w.limits.Pause)
	defer cancel()
	said := ""
	for pause := firstPause; ; pause = min(2*pause, w.pace()) {
		if why = stopped(); why != "" {
			return why
		}
		waits := ""
		err := w.change(ctx, func(s *waves.State) (err error) {
			waits, why, err = s.Begin(w.limits, h.node.Name, time.Now(), func(of []string) ([]string, error) {
				return w.outOf(ctx, of)
			})
			return err
		})
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return w.cannot("read how far the waves of the rollout are", err)
		case waits == "":
			return why
		}
		if waits != said && waits != "" {
			said = waits
			h.state("waiting", waits)
		}
		select {
		case <-ctx.Done():
			return "it waited for its turn: " + said
		case <-time.After(spread(pause)): // between two attempts
		}
	}
}

// outOf are those of some Nodes that are out of service.
func (w *wave) outOf(ctx context.Context, names []string) (out []string, err error) {
	nodes, err := w.api.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if slices.Contains(names, n.Name) && n.Out() {
			out = append(out, n.Name)
		}
	}
	return out, nil
}

// end notes how the run of a host that had begun has ended. One that was stopped goes on in the next run.
func (w *wave) end(ctx context.Context, res HostSummary) {
	if res.Err == nil || res.failed() {
		w.note(ctx, res.Node, func(s *waves.State) { s.End(res.Node, res.failed(), time.Now()) })
	}
}

// giveUp is for a host that was let begin, and did not.
func (w *wave) giveUp(ctx context.Context, node string) {
	w.note(ctx, node, func(s *waves.State) { s.GiveUp(node) })
}

// settle notes the end of a Node with which a run had begun that died, where nothing is left to do.
func (w *wave) settle(ctx context.Context, res HostSummary) {
	if w.shared() && res.Err == nil {
		w.end(ctx, res)
	}
}

func (w *wave) note(ctx context.Context, node string, f func(*waves.State)) {
	if len(w.limits.Sizes) == 0 {
		return
	}
	ctx, cancel := kube.Bound(context.WithoutCancel(ctx), letGoFor)
	defer cancel()
	for {
		err := w.change(ctx, func(s *waves.State) error {
			f(s)
			return nil
		})
		if err == nil {
			return
		}
		select {
		case <-time.After(slotEvery): // between two attempts
		case <-ctx.Done():
			w.emit(event.Warning{Summary: "the end of " + node + " could not be noted for the waves of the rollout",
				Detail: err.Error() + "; other shards wait for it until an apply has " + node + " again"})
			return
		}
	}
}

// change changes the state. f may be called more than once.
func (w *wave) change(ctx context.Context, f func(*waves.State) error) error {
	if !w.shared() {
		w.mu.Lock()
		defer w.mu.Unlock()
		return f(&w.state)
	}
	l := kube.Lease{Name: leaseName(w.planName()) + wavesMark + shortDigest(w.group()),
		Duration: (slotWait + w.limits.Pause).Truncate(time.Second)}
	for {
		list, err := w.api.Leases(ctx, l.Name)
		if err != nil {
			return err
		}
		var s waves.State
		before, from := "", ""
		if len(list) > 0 && list[0].Live(time.Now()) {
			before, from = list[0].Note, list[0].Holder
			if err := json.Unmarshal([]byte(before), &s); err != nil {
				return fmt.Errorf("the Lease %s cannot be read: %w", l.Name, err)
			}
		}
		if err := f(&s); err != nil {
			return err
		}
		b, err := json.Marshal(s)
		if err != nil || string(b) == before {
			return err
		}
		l.Note, l.Renewed = string(b), time.Now()
		l.Holder = fmt.Sprintf("%s %d", w.opt.Holder.Run, l.Renewed.UnixNano())
		_, err = w.api.TakeLease(ctx, l, from)
		if !errors.Is(err, kube.ErrHeld) || ctx.Err() != nil {
			return err
		}
	}
}

// shortDigest is short, for the names of objects.
func shortDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}
