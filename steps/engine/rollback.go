package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/plan/compat"
	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// TakenBack is how the change of a host was taken back, after a step had failed.
type TakenBack struct {
	// Version of the kubelet that the Node is Ready with again; "" = the machine is no
	// node again, or its Node was not Ready before either.
	Version string
	Left    []string // what could not be put back, each with why
	Failed  string   // where taking back ended; "" = it is done
	Err     error    // nil = the host works as before
}

// String says it in a sentence.
func (t *TakenBack) String() string {
	out := "What this run had changed on the machine was taken back"
	switch {
	case t.Err != nil:
		return fmt.Sprintf("Taking back what was changed failed as well, at %s: %s; the next apply goes on from there", t.Failed, steps.AsError(t.Err).Error())
	case t.Version != "":
		out += ": its Node is Ready again with " + t.Version
	}
	if len(t.Left) > 0 {
		out += "; not put back: " + strings.Join(t.Left, "; ")
	}
	return out
}

// readyAgain bounds the wait for the Node after its kubelet has been put back; it is
// that of the step node_ready.
const readyAgain = 5 * time.Minute

// trialStart is what the Node is before this run, where the plan wants a failed change
// of the host to be taken back; else nil. Without a word of the plan that is an upgrade
// of a Node that works, and what an earlier run has begun so.
func (h *hostRun) trialStart() *steps.TrialStart {
	start := &steps.TrialStart{}
	if n := h.report.KubeNode; n != nil {
		*start = steps.TrialStart{Node: n.UID, Ready: n.Ready, Version: compat.Canonical(n.KubeletVersion), Given: steps.GivenTo(*n)}
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
	if t := h.report.Trial; t != nil && !t.Ended || h.report.Upgrade != nil && start.Ready {
		return start
	}
	return nil
}

// takesBack tells whether a failure is one that is taken back: a step that failed, not a
// run that was stopped or lost its way to the host or the cluster, and not one that
// comes when all is verified.
func (h *hostRun) takesBack(ctx context.Context, sum *HostSummary) bool {
	if h.trial == nil || sum.Failed == "" || lostWay(ctx, sum.Err) {
		return false
	}
	i := slices.IndexFunc(h.node.Steps, func(s steps.Spec) bool { return s.ID == sum.Failed })
	return i >= 0 && h.node.Steps[i].Kind != "node_joined"
}

// lostWay tells whether err is that of a run which was stopped, or may not or cannot reach
// the host or the cluster, and says nothing of either.
func lostWay(ctx context.Context, err error) bool {
	var ce *transport.ConnectError
	if ctx.Err() != nil || errors.As(err, &ce) || dropped(err) {
		return true
	}
	switch steps.AsError(err).Code {
	case steps.CodeInterrupted, steps.CodeUnreachable, steps.CodeUnauthorized, steps.CodeLocked, steps.CodeReboot:
		return true
	}
	return false
}

// takeBack makes the host as it was before its trial and sees it work.
func (h *hostRun) takeBack(ctx context.Context, sum *HostSummary) {
	out := &TakenBack{}
	before := h.heartbeat(ctx)
	var reply steps.TakeBackReply
	h.backPhase(ctx, out, "rollback", func() (err error) {
		reply, err = ask(ctx, h, "applying", wire.TakeBack, steps.TakeBackRequest{Node: h.node.Name})
		if err == nil && reply.Err != nil {
			out.Failed, err = reply.Failed, reply.Err
		}
		return err
	})
	out.Left = reply.Left
	if out.Err == nil && reply.Trial == nil { // nothing of the host had been changed
		restored := h.putNodeBack(ctx, out, *h.trial)
		if h.cordoned && h.api != nil {
			h.backPhase(ctx, out, "uncordon", func() error { return absentIsFine(h.api.Uncordon(ctx, h.node.Name)) })
		}
		if out.Err == nil && !restored {
			return
		}
	}
	sum.TakenBack = out
	sum.Changed = slices.DeleteFunc(sum.Changed, func(id string) bool {
		return slices.ContainsFunc(h.node.Steps, func(s steps.Spec) bool {
			k, _ := steps.Lookup(s.Kind)
			return s.ID == id && (k.Place == steps.OnHost || s.Kind == "node_labels" || s.Kind == "node_taints")
		})
	})
	if out.Err == nil && reply.Trial != nil {
		h.seeBack(ctx, out, *reply.Trial, reply.Services, func(n kube.Node) bool { return !n.Heartbeat.Equal(before) })
	}
}

// backPhase runs a part of taking back; none after one that failed.
func (h *hostRun) backPhase(ctx context.Context, out *TakenBack, id string, f func() error) {
	if out.Err != nil {
		return
	}
	if out.Err = h.phase(ctx, id, f); out.Err != nil {
		out.Failed = cmp.Or(out.Failed, id)
	}
}

// seeBack sees a machine work that was put back, and puts the cluster's side of it back;
// alive tells that a kubelet which was started again has reported. Then the trial ends.
// What the cluster could not be asked stays for the next run.
func (h *hostRun) seeBack(ctx context.Context, out *TakenBack, start steps.TrialStart, services []string, alive func(kube.Node) bool) {
	uncordon := func() error { return absentIsFine(h.api.Uncordon(ctx, h.node.Name)) }
	h.backPhase(ctx, out, "gates", func() error { return h.gatesOf(ctx, services) })
	switch {
	case start.Ready && h.api != nil:
		h.backPhase(ctx, out, "node_ready", func() error {
			restarted := slices.Contains(services, "kubelet")
			return h.awaitReady(ctx, start.Version, func(n kube.Node) bool { return !restarted || alive(n) })
		})
		h.putNodeBack(ctx, out, start)
		h.backPhase(ctx, out, "uncordon", uncordon)
		if out.Err == nil {
			out.Version = start.Version
		}
	case start.Node == "" && h.api != nil && needsCluster(h.node):
		h.backPhase(ctx, out, "node_removed", func() error { return h.forgetNode(ctx) })
	case h.api != nil: // it was not Ready before, and may be again by itself
		h.putNodeBack(ctx, out, start)
		if h.cordoned {
			h.backPhase(ctx, out, "uncordon", uncordon)
		}
	}
	if out.Err == nil || !lostWay(ctx, out.Err) {
		// What cannot be told to the machine any more is seen again by the next run.
		_, _ = ask(ctx, h, "applying", wire.Verified, wire.None{})
	}
}

// putNodeBack gives the Node the labels and taints again that it had before the trial;
// true where there was anything to do.
func (h *hostRun) putNodeBack(ctx context.Context, out *TakenBack, start steps.TrialStart) bool {
	if out.Err != nil || h.api == nil || start.Given == nil {
		return false
	}
	n, err := h.api.Node(ctx, h.node.Name)
	var put func(context.Context, kube.API) error
	if err == nil && n.UID == start.Node {
		put = start.Given.PutBack(n)
	}
	if err = absentIsFine(err); err == nil && put == nil {
		return false
	}
	h.backPhase(ctx, out, "node_labels_taints", func() error {
		if err != nil {
			return err
		}
		return absentIsFine(put(ctx, h.api))
	})
	return out.Err == nil
}

// finishTakeBack sees a machine work that an earlier run has put back, and says so: that
// run did not come to it. One that does not work again is no reason not to go on.
func (h *hostRun) finishTakeBack(ctx context.Context) error {
	t := h.report.Trial
	if t == nil || t.Back == nil {
		return nil
	}
	start, out := t.TrialStart, &TakenBack{Left: t.Back.Left}
	if n := h.report.KubeNode; start.Node == "" && n != nil && n.Ready && !slices.Contains(n.Taints, kube.Joining) {
		start.Node = n.UID // somebody has joined the machine since: that Node is none of the run's
	}
	h.seeBack(ctx, out, start, t.Back.Services, func(kube.Node) bool { return true })
	if out.Err != nil && lostWay(ctx, out.Err) {
		return out.Err
	}
	h.emit(event.Warning{Host: h.node.Name, Summary: "an earlier run was taken back", Detail: fmt.Sprintf("The run that began %s did not come to say so. %s", t.Begun.Format("2006-01-02T15:04Z"), out)})
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

// heartbeat is when the kubelet last said that it lives; zero where that is not known.
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

// gatesOf waits until the services answer that were put back, as the plan's own gates of
// them would.
func (h *hostRun) gatesOf(ctx context.Context, services []string) error {
	var gates []steps.Spec
	for _, s := range h.node.Steps {
		if slices.Contains(services, s.Gate()) {
			gates = append(gates, s)
		}
	}
	if len(gates) == 0 {
		return nil
	}
	reply, err := retryDropped(ctx, h, "applying", func() (steps.ApplyReply, error) {
		return transport.Do(ctx, h.conn, wire.Apply, h.request(gates), nil)
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
	return steps.AwaitNode(ctx, h.api, h.node.Name, "the Node did not become Ready again", progress, func(n kube.Node) string {
		switch {
		case compat.Canonical(n.KubeletVersion) != version:
			return fmt.Sprintf("the Node says that its kubelet is %s, not %s yet", n.KubeletVersion, version)
		case !n.Ready:
			return "the Node is not Ready: " + n.ReadyReason
		case !alive(n):
			return "the kubelet that was put back has not reported yet"
		}
		return ""
	})
}

// forgetNode takes from the cluster what a first join has made there.
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
	return err
}

// verified ends the trial of the host, if there is one.
func (h *hostRun) verified(ctx context.Context) error {
	if h.trial == nil && h.report.Trial == nil || h.node.Partial {
		return nil
	}
	_, err := ask(ctx, h, "applying", wire.Verified, wire.None{})
	return err
}
