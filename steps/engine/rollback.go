package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// readyAgain bounds the wait for the Node after its kubelet has been restored; it is
// that of the step node_ready.
const readyAgain = 5 * time.Minute

// nodeBefore is what the Node is before this run, where the plan wants a failed change
// of the host to be rolled back; else nil. By default: an upgrade of a Ready Node, or a
// snapshot that an earlier run opened.
func (h *hostRun) nodeBefore() *executor.NodeBefore {
	start := &executor.NodeBefore{}
	if n := h.report.KubeNode; n != nil {
		*start = executor.NodeBefore{UID: n.UID, Ready: n.Ready, Version: compat.Canonical(n.KubeletVersion),
			Given: steps.GivenTo(*n)}
	}
	if h.node.Partial { // it neither proves the Node nor fails for all of it
		return nil
	}
	switch h.node.OnFailure {
	case "keep":
		return nil
	case "rollback":
		return start
	}
	if s := h.report.Snapshot; s != nil && !s.Closed || h.report.Upgrade != nil && start.Ready {
		return start
	}
	return nil
}

// rollsBack reports whether a failure is one that is rolled back: a step that failed, not a
// run that was stopped or lost its way to the host or the cluster, and not one that
// comes when all is verified.
func (h *hostRun) rollsBack(ctx context.Context, sum *HostSummary) bool {
	if h.rollbackTo == nil || sum.Failed == "" || lostWay(ctx, sum.Err) {
		return false
	}
	i := slices.IndexFunc(h.node.Steps, func(s steps.Spec) bool { return s.ID == sum.Failed })
	if i < 0 { // what failed is a removal; before the steps it is rolled back
		return len(sum.Changed)+len(sum.Unchanged) == 0
	}
	return !kinds.Of(h.node.Steps[i]).Ends
}

// lostWay reports whether err is that of a run which was stopped, or may not or cannot reach
// the host or the cluster, and says nothing of either.
func lostWay(ctx context.Context, err error) bool {
	var ce *transport.ConnectError
	if ctx.Err() != nil || errors.As(err, &ce) || dropped(err) {
		return true
	}
	switch steps.AsError(err).Code {
	case steps.CodeInterrupted, steps.CodeUnreachable, steps.CodeUnauthorized, steps.CodeLocked, steps.CodeReboot,
		steps.CodePaused:
		return true
	}
	return false
}

// rollBack makes the host as it was before its snapshot and waits until it works.
func (h *hostRun) rollBack(ctx context.Context, sum *HostSummary) {
	out := &Rollback{}
	before := h.heartbeat(ctx)
	var reply executor.RollbackReply
	h.rollbackPhase(ctx, out, "rollback", func() (err error) {
		reply, err = ask(ctx, h, "applying", wire.Rollback, executor.RollbackRequest{Node: h.node.Name})
		if err == nil && reply.Err != nil {
			out.Failed, err = reply.Failed, reply.Err
		}
		return err
	})
	out.Left = reply.Left
	if out.Err == nil && reply.Before == nil { // nothing of the host had been changed
		restored := h.restoreNode(ctx, out, *h.rollbackTo)
		if h.cordoned && h.api != nil {
			h.rollbackPhase(ctx, out, "uncordon", func() error { return absentIsFine(h.api.Uncordon(ctx, h.node.Name)) })
		}
		if out.Err == nil && !restored {
			return
		}
	}
	sum.Rollback, sum.Removed = out, nil
	sum.Changed = slices.DeleteFunc(sum.Changed, func(id string) bool {
		return slices.ContainsFunc(h.node.Steps, func(s steps.Spec) bool {
			k := kinds.Of(s)
			return s.ID == id && (k.Place == steps.OnHost || k.Restored)
		})
	})
	if out.Err == nil && reply.Before != nil {
		h.awaitWorking(ctx, out, h.before(*reply.Before), reply.Services, func(n kube.Node) bool {
			return !n.Heartbeat.Equal(before)
		})
	}
}

// before is what the Node was, by this run where it began the snapshot, else by what the machine says.
func (h *hostRun) before(said executor.NodeBefore) executor.NodeBefore {
	if own := h.rollbackTo; own != nil && h.report.Snapshot == nil {
		return *own
	}
	said.Given = said.Given.OfMachine()
	return said
}

// rollbackPhase runs a part of the rollback; none after one that failed.
func (h *hostRun) rollbackPhase(ctx context.Context, out *Rollback, id string, f func() error) {
	if out.Err != nil {
		return
	}
	if out.Err = h.phase(ctx, id, f); out.Err != nil {
		out.Failed = cmp.Or(out.Failed, id)
	}
}

// awaitWorking waits until a machine works that was rolled back, and rolls the cluster's
// side of it back; alive reports whether a kubelet that was started again has reported.
// Then the snapshot is closed. What the cluster could not be asked stays for the next run.
func (h *hostRun) awaitWorking(ctx context.Context, out *Rollback, start executor.NodeBefore, services []string,
	alive func(kube.Node) bool) {
	uncordon := func() error { return absentIsFine(h.api.Uncordon(ctx, h.node.Name)) }
	h.rollbackPhase(ctx, out, "gates", func() error { return h.gatesOf(ctx, services) })
	switch {
	case start.Ready && h.api != nil:
		h.rollbackPhase(ctx, out, "node_ready", func() error {
			restarted := slices.Contains(services, "kubelet")
			return h.awaitReady(ctx, start.Version, func(n kube.Node) bool { return !restarted || alive(n) })
		})
		h.restoreNode(ctx, out, start)
		h.rollbackPhase(ctx, out, "uncordon", uncordon)
		if out.Err == nil {
			out.Version = start.Version
		}
	case start.UID == "" && h.api != nil && needsCluster(h.node):
		h.rollbackPhase(ctx, out, "node_removed", func() error { return h.forgetNode(ctx) })
	case h.api != nil: // it was not Ready before, and may be again by itself
		h.restoreNode(ctx, out, start)
		if h.cordoned {
			h.rollbackPhase(ctx, out, "uncordon", uncordon)
		}
	}
	if out.Err == nil || !lostWay(ctx, out.Err) {
		// If the machine does not get this, the next run waits for it again.
		_, _ = ask(ctx, h, "applying", wire.Verified, wire.None{})
	}
}

// restoreNode restores the labels and taints that the Node had before the snapshot; true
// where there was anything to do.
func (h *hostRun) restoreNode(ctx context.Context, out *Rollback, start executor.NodeBefore) bool {
	if out.Err != nil || h.api == nil || start.Given == nil {
		return false
	}
	n, err := h.api.Node(ctx, h.node.Name)
	var put func(context.Context, kube.API) error
	if err == nil && n.UID == start.UID {
		put = start.Given.Restore(n)
	}
	if err = absentIsFine(err); err == nil && put == nil {
		return false
	}
	h.rollbackPhase(ctx, out, "node_labels_taints", func() error {
		if err != nil {
			return err
		}
		return absentIsFine(put(ctx, h.api))
	})
	return out.Err == nil
}

// finishRollback waits until a machine works that an earlier run has rolled back, and
// reports it: that run ended before. If it does not work, this run continues anyway.
func (h *hostRun) finishRollback(ctx context.Context) error {
	s := h.report.Snapshot
	if s == nil || s.RolledBack == nil {
		return nil
	}
	start, out := h.before(s.Node), &Rollback{Left: s.RolledBack.Left}
	if n := h.report.KubeNode; start.UID == "" && n != nil && n.Ready && !slices.Contains(n.Taints, kube.Joining) {
		start.UID = n.UID // somebody has joined the machine since: that Node is not the run's
	}
	h.awaitWorking(ctx, out, start, s.RolledBack.Services, func(kube.Node) bool { return true })
	if out.Err != nil && lostWay(ctx, out.Err) {
		return out.Err
	}
	h.emit(event.Warning{Host: h.node.Name, Summary: "an earlier run was rolled back",
		Detail: fmt.Sprintf("The run that began %s ended before it had reported that. %s",
			s.Begun.Format("2006-01-02T15:04Z"), out)})
	h.report.KubeNode = nil
	if h.api != nil && needsCluster(h.node) {
		if err := h.checkNode(ctx, h.api); err != nil {
			return err
		}
	}
	if h.report.KubeNode == nil {
		h.report.Interruption = nil
	}
	return nil
}

// heartbeat is when the kubelet last reported; zero where that is not known.
func (h *hostRun) heartbeat(ctx context.Context) time.Time {
	if h.api == nil {
		return time.Time{}
	}
	n, err := h.api.Node(ctx, h.node.Name)
	if err != nil {
		return time.Time{}
	}
	return n.Heartbeat
}

// gatesOf waits until the services that were restored answer, as the plan's own gates of
// them would.
func (h *hostRun) gatesOf(ctx context.Context, services []string) error {
	var gates []steps.Spec
	for _, s := range h.node.Steps {
		if slices.Contains(services, kinds.Gate(s)) {
			gates = append(gates, s)
		}
	}
	if len(gates) == 0 {
		return nil
	}
	reply, err := retryDropped(ctx, h, "applying", func() (executor.ApplyReply, error) {
		req := h.request(gates)
		req.Pausable = false // a rollback comes to its end
		return do(ctx, h, wire.Apply, req, nil)
	})
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	return err
}

// awaitReady waits until the Node is Ready with the version, and alive.
func (h *hostRun) awaitReady(ctx context.Context, version string, alive func(kube.Node) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyAgain)
	defer cancel()
	progress := func(p event.StepProgress) { p.Host, p.Step = h.node.Name, "node_ready"; h.emit(p) }
	return kinds.AwaitNode(ctx, h.api, h.node.Name, "the Node did not become Ready again", progress,
		func(n kube.Node) string {
			switch {
			case compat.Canonical(n.KubeletVersion) != version:
				return fmt.Sprintf("the Node reports kubelet %s, not %s yet", n.KubeletVersion, version)
			case !n.Ready:
				return "the Node is not Ready: " + n.ReadyReason
			case !alive(n):
				return "the restored kubelet has not reported yet"
			}
			return ""
		})
}

// forgetNode removes from the cluster what a first join has made there.
func (h *hostRun) forgetNode(ctx context.Context) error {
	n, err := h.api.Node(ctx, h.node.Name)
	if err == nil {
		err = h.api.DeleteNode(ctx, n.Name, n.UID)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tokens, err := h.api.BootstrapTokens(ctx, h.node.Name)
	for _, t := range tokens {
		if err == nil {
			err = h.api.RevokeToken(ctx, t.ID)
		}
	}
	return errors.Join(err, h.api.EndTokens(ctx, h.node.Name))
}

// verified closes the snapshot of the host, if there is one.
func (h *hostRun) verified(ctx context.Context) error {
	if h.rollbackTo == nil && h.report.Snapshot == nil || h.node.Partial {
		return nil
	}
	_, err := ask(ctx, h, "applying", wire.Verified, wire.None{})
	return err
}
