package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/wait"
)

const (
	// reconnectFor bounds the time in which a lost connection is tried again.
	reconnectFor = 2 * time.Minute
	// maxDrops bounds the losses in a row without any step done in between.
	maxDrops = 5
)

// Apply makes every host as the plan wants it. Check must have run. A host that
// fails does not stop the others, but for those whose Nodes it would take out of service:
// they are changed as the plan's rollout allows.
func (s *Session) Apply(ctx context.Context) *Summary {
	start := time.Now()
	sum := &Summary{Hosts: make([]HostSummary, len(s.hosts))}
	letGo, err := s.holdCluster(ctx)
	defer letGo()
	s.roll(ctx, sum, func(ctx context.Context, h *hostRun) HostSummary {
		if err != nil && h.report.Err == nil {
			h.report.Err = err
		}
		return h.apply(ctx)
	})
	sum.Duration = time.Since(start)
	return sum
}

func (h *hostRun) apply(ctx context.Context) (sum HostSummary) {
	sum.Node = h.node.Name
	if h.report.Err != nil {
		sum.Err = h.report.Err
		sum.NotRun = ids(h.node.Steps)
		return sum
	}
	// A host of which something could not be asked, or on which a condition does
	// not hold, is left as it is: nothing is changed on half a knowledge.
	for _, s := range h.report.Steps {
		if s.Result.Err != nil {
			sum.Failed, sum.Source, sum.Err = s.Spec.ID, s.Spec.Source, s.Result.Err
			sum.NotRun = ids(h.node.Steps)
			return sum
		}
	}
	h.state("applying", "")
	if sum.Err = h.hold(ctx); sum.Err != nil {
		sum.NotRun = ids(h.node.Steps)
		h.state("failed", "")
		return sum
	}
	if sum.Err = h.finishRollback(ctx); sum.Err != nil {
		sum.NotRun = ids(h.node.Steps)
		h.letGo(ctx)
		h.state("failed", "")
		return sum
	}
	h.rollbackTo = h.nodeBefore()
	start := time.Now()
	defer func() { h.noteRun(ctx, sum, start); h.letGo(ctx) }()
	rest, aside := h.node.Steps, false // aside: the Node could not be cordoned or drained
	for len(rest) > 0 && sum.Err == nil {
		if err := context.Cause(ctx); err != nil {
			sum.Err = steps.Interrupted("apply")
			break
		}
		if h.stopsFirst(rest[0].ID) {
			if sum.Err = h.stepAside(ctx); sum.Err != nil {
				sum.Failed, sum.Source = rest[0].ID, rest[0].Source
				aside = true
				break
			}
		}
		if rest[0].Kind == "node_joined" {
			// All is verified, and the Node takes pods from here on: nothing is rolled back any more.
			if sum.Err = h.verified(ctx); sum.Err != nil {
				break
			}
			h.rollbackTo = nil
		}
		n := 1
		if k, _ := steps.Lookup(rest[0].Kind); k.Place == steps.OnCluster {
			h.applyCluster(ctx, rest[0], &sum)
		} else if k.Reboots {
			h.applyReboot(ctx, rest[0], &sum)
		} else {
			// Conditions and folders come before the first long transfer.
			blob := h.needsBlob(rest[0])
			for n < len(rest) {
				if k, _ := steps.Lookup(rest[n].Kind); k.Place == steps.OnCluster || k.Reboots || !blob && h.needsBlob(rest[n]) || h.stopsFirst(rest[n].ID) {
					break
				}
				n++
			}
			h.applyBatch(ctx, rest[:n], &sum)
		}
		rest = rest[n:]
	}
	if sum.Err == nil && !needsCluster(h.node) {
		sum.Err = h.verified(ctx)
	} else if sum.Err != nil && !aside && h.rollsBack(ctx, &sum) {
		h.rollBack(ctx, &sum)
	}
	if sum.Err == nil {
		sum.Err = h.stepBack(ctx)
	}
	if sum.Err == nil && h.rebootLeft != nil {
		sum.Err = h.rebootLeft
	}
	for _, spec := range h.node.Steps {
		if spec.ID != sum.Failed && !slices.Contains(sum.Changed, spec.ID) && !slices.Contains(sum.Unchanged, spec.ID) {
			sum.NotRun = append(sum.NotRun, spec.ID)
		}
	}
	if sum.Err != nil {
		h.state("failed", "")
	} else {
		h.state("done", "")
	}
	return sum
}

func ids(specs []steps.Spec) []string {
	var out []string
	for _, s := range specs {
		out = append(out, s.ID)
	}
	return out
}

// applyCluster runs one step on the cluster's side.
func (h *hostRun) applyCluster(ctx context.Context, spec steps.Spec, sum *HostSummary) {
	if spec.OnlyIf != "" && !h.pending[spec.OnlyIf] {
		sum.Unchanged = append(sum.Unchanged, spec.ID)
		return
	}
	if k, _ := steps.Lookup(spec.Kind); k.Shared {
		turn, _ := h.turns.LoadOrStore(sharedKey(spec), new(sync.Mutex))
		turn.(*sync.Mutex).Lock()
		defer turn.(*sync.Mutex).Unlock()
	}
	e := &steps.Env{Node: h.node.Name, StepID: spec.ID, Kubelet: new(string)}
	if n := h.report.KubeNode; n != nil {
		*e.Kubelet = n.KubeletVersion
	}
	e.Progress = func(p event.StepProgress) { p.Host, p.Step = h.node.Name, spec.ID; h.emit(p) }
	r := steps.Run(ctx, h.node.Name, spec, h.values, e, h.emit, steps.Target{Kube: h.api})
	for k, v := range r.Outputs {
		h.values[spec.ID+"."+k] = v
	}
	switch {
	case r.Err != nil:
		sum.Failed, sum.Source, sum.Err = spec.ID, spec.Source, r.Err
	case r.Changed:
		sum.Changed = append(sum.Changed, spec.ID)
	default:
		sum.Unchanged = append(sum.Unchanged, spec.ID)
	}
}

// applyBatch runs consecutive host steps in one call, so that a step costs no
// round trip of its own. A lost connection is made anew and the rest of the batch
// sent again.
func (h *hostRun) applyBatch(ctx context.Context, specs []steps.Spec, sum *HostSummary) {
	staged := map[string]bool{}
	drops := 0
	for {
		err := h.stage(ctx, specs, staged)
		var reply steps.ApplyReply
		done := map[string]bool{} // step -> changed
		starting := false         // a step failed while services still come up after a boot
		if err == nil {
			req := h.request(specs)
			req.Snapshot = h.rollbackTo
			reply, err = transport.Do(ctx, h.conn, wire.Apply, req, func(e event.Event) {
				if d, ok := e.(event.StepDone); ok && d.Result != "failed" {
					done[d.Step] = d.Result == "changed"
				} else if ok && h.comesUp(d) {
					starting = true
					e = event.StepProgress{Host: d.Host, Step: d.Step, Note: d.Summary + "; the machine has just booted, so it is tried again"}
				}
				h.emit(e)
			})
		}
		if err == nil {
			h.take(reply, sum)
			if reply.Err == nil {
				return
			}
			rest := specs[slices.IndexFunc(specs, func(s steps.Spec) bool { return s.ID == reply.Failed }):]
			if reply.Err.Code == steps.CodeBlobMissing && !staged[reply.Failed] {
				// The check did not foresee it: bring it and go on.
				h.pending[reply.Failed] = true
				specs = rest
				continue
			}
			if starting && wait.Pause(ctx, rebootLook) == nil {
				specs = append(h.services(reply.Failed), rest...)
				continue
			}
			sum.Failed, sum.Source, sum.Err = reply.Failed, rest[0].Source, reply.Err
			return
		}
		if ctx.Err() != nil {
			sum.Err = steps.Interrupted("apply")
			return
		}
		if !dropped(err) {
			sum.Err = err
			if se := (*stageError)(nil); errors.As(err, &se) {
				sum.Failed, sum.Source, sum.Err = se.spec.ID, se.spec.Source, se.err
			}
			return
		}
		// What was done before the loss counts, and is not sent again. Its outputs
		// are lost with the reply, so from the first step that gives any on, the
		// steps are run again: they find everything in order.
		n := 0
		for n < len(specs) {
			changed, ok := done[specs[n].ID]
			if !ok {
				break
			}
			h.count(specs[n].ID, changed, sum)
			n++
		}
		if n > 0 {
			drops = 0
		}
		for i := 0; i < n; i++ {
			if k, _ := steps.Lookup(specs[i].Kind); len(k.Outputs) > 0 {
				n = i
			}
		}
		specs = specs[n:]
		h.lostMutations += h.connMutations
		h.connMutations = 0
		if drops++; drops > maxDrops {
			sum.Err = &transport.ConnectError{Reason: transport.ReasonUnreachable, Host: h.node.Name, Summary: "connection lost",
				Detail: fmt.Sprintf("it was lost %d times in a row without a step done: %v", maxDrops, err), Remedy: "look at the network and the SSH server of the host; the next apply goes on from here", Err: err}
			return
		}
		if sum.Err = h.reconnect(ctx, err, "applying"); sum.Err != nil {
			return
		}
	}
}

// take adds a reply to the summary and to the known values.
func (h *hostRun) take(reply steps.ApplyReply, sum *HostSummary) {
	maps.Copy(h.values, reply.Values)
	for _, id := range reply.Changed {
		h.count(id, true, sum)
	}
	for _, id := range reply.Unchanged {
		h.count(id, false, sum)
	}
	h.connMutations = reply.Mutations
	sum.Mutations = h.lostMutations + h.connMutations
}

// count adds a step that is done; one that was changed once stays changed.
func (h *hostRun) count(id string, changed bool, sum *HostSummary) {
	if slices.Contains(sum.Changed, id) {
		return
	}
	if i := slices.Index(sum.Unchanged, id); i >= 0 {
		if !changed {
			return
		}
		sum.Unchanged = slices.Delete(sum.Unchanged, i, i+1)
	}
	if changed {
		sum.Changed = append(sum.Changed, id)
	} else {
		sum.Unchanged = append(sum.Unchanged, id)
	}
}

// needsBlob tells whether the step will read an artifact of the controller.
func (h *hostRun) needsBlob(spec steps.Spec) bool {
	return h.pending[spec.ID] && blobOf(spec).File != ""
}

// blobOf is the artifact of the controller that a step's arguments name, if any.
func blobOf(spec steps.Spec) steps.Source {
	var src steps.Source
	if json.Unmarshal(spec.Args, &src) != nil {
		return steps.Source{}
	}
	if _, digest := src.Digest(); digest == "" {
		return steps.Source{} // another kind's argument of that name
	}
	return src
}

// stage brings the controller's artifacts that the steps will read.
func (h *hostRun) stage(ctx context.Context, specs []steps.Spec, staged map[string]bool) error {
	for _, spec := range specs {
		if !h.pending[spec.ID] || staged[spec.ID] {
			continue
		}
		src := blobOf(spec)
		if src.File == "" {
			continue
		}
		err := h.conn.Stage(ctx, src, func(done, total int64) {
			h.emit(event.StepProgress{Host: h.node.Name, Step: spec.ID, Done: done, Total: total, Note: "sending"})
		})
		if err != nil {
			if dropped(err) || ctx.Err() != nil {
				return err
			}
			h.emit(steps.Done(event.StepDone{Host: h.node.Name, Step: spec.ID, Source: spec.Source}, err))
			return &stageError{spec: spec, err: steps.AsError(err)}
		}
		staged[spec.ID] = true
	}
	return nil
}

// stageError is an artifact that could not be brought to the host, with its step.
type stageError struct {
	spec steps.Spec
	err  *steps.Error
}

func (e *stageError) Error() string { return e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

// reconnect makes the connection anew, with backoff, as long as the host does not
// answer; a refusal ends it at once. Then the run is in the given state again.
func (h *hostRun) reconnect(ctx context.Context, cause error, state string) error {
	h.disconnect()
	h.state("reconnecting", cause.Error())
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 200*time.Millisecond, 10*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := h.connect(ctx)
		if err == nil && h.holds {
			if err = h.lock(ctx); err != nil {
				if !dropped(err) {
					return struct{}{}, backoff.Permanent(err)
				}
				h.disconnect()
			}
		}
		var ce *transport.ConnectError
		if errors.As(err, &ce) && ce.Reason != transport.ReasonUnreachable {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(reconnectFor))
	if err == nil {
		h.state(state, "")
	}
	return err
}
