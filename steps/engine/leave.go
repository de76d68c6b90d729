package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport/wire"
)

// LeaveOptions of CheckLeave and Leave.
type LeaveOptions struct {
	// WithoutCluster leaves the cluster alone: no cordon, no drain, and the Node object stays.
	WithoutCluster bool
	Drain          kube.DrainOptions
}

// LeaveReport is what a leave would do.
type LeaveReport struct {
	Hosts   []LeaveHost
	Cluster *steps.Error // the cluster could not be asked; nil = fine or not needed
}

// LeaveHost is what a leave would do on one host.
type LeaveHost struct {
	Node   plan.Node
	Facts  host.Facts
	Items  []executor.LeaveItem // in the order in which they are undone
	Folder bool                 // nodejoin's own folder is there
	Others []executor.Other     // of the cluster's CNI, which stay
	// KubeNode is the Node object; nil: there is none, or the cluster is left alone.
	KubeNode    *kube.Node
	Evict, Stay []kube.Pod
	Err         error // the host or its Node cannot leave; nothing is done to them
}

// Pending reports whether there is anything to do.
func (h *LeaveHost) Pending() bool {
	return h.made() || h.Folder || h.KubeNode != nil
}

// made reports whether nodejoin made or altered something on the host that the leave undoes.
func (h *LeaveHost) made() bool {
	return slices.ContainsFunc(h.Items, func(i executor.LeaveItem) bool { return !i.Change.NoOp() })
}

// LeaveSummary is the result of a leave.
type LeaveSummary struct {
	Hosts    []LeaveResult
	Duration time.Duration
}

// LeaveResult is the result of a leave on one host.
type LeaveResult struct {
	Node  string
	Items []executor.LeaveItem // as they were found in the end; Left says what stays
	Files []string             // in nodejoin's folder that nodejoin did not put there
	// Others are of the cluster's CNI, as they were before the leave.
	Others []executor.Other
	// NodeGone: the cluster was asked and no longer has the Node.
	NodeGone  bool
	Failed    string // where it ended; "" = it is done
	Err       error
	Mutations int64 // mutating host calls
}

// CheckLeave asks hosts and cluster what a leave would do; nothing is changed.
func (s *Session) CheckLeave(ctx context.Context, o LeaveOptions) *LeaveReport {
	r := &LeaveReport{Hosts: make([]LeaveHost, len(s.hosts))}
	index := s.index()
	s.each(ctx, func(ctx context.Context, h *hostRun) { r.Hosts[index[h]] = leaving{h, o}.check(ctx) },
		func(h *hostRun, err error) { r.Hosts[index[h]] = LeaveHost{Node: h.node, Err: err} })
	if s.withCluster(o) {
		if err := errors.Join(s.openErr, s.infoErr); err != nil {
			r.Cluster = steps.AsError(err)
		}
	}
	return r
}

func (s *Session) index() map[*hostRun]int {
	index := map[*hostRun]int{}
	for i, h := range s.hosts {
		index[h] = i
	}
	return index
}

func (s *Session) withCluster(o LeaveOptions) bool { return s.plan.Cluster != nil && !o.WithoutCluster }

// leaving is the leave of one host.
type leaving struct {
	*hostRun
	options LeaveOptions
}

func (h leaving) check(ctx context.Context) (out LeaveHost) {
	out.Node = h.node
	defer func() {
		if out.Err != nil {
			h.state("failed", "")
		} else {
			h.state("done", "")
		}
	}()
	var reply executor.LeaveReply
	var err, clusterErr error
	asks := []func(){func() {
		reply, err = ask(ctx, h.hostRun, "checking", wire.CheckLeave, h.leaveRequest())
	}}
	if h.withCluster(h.options) {
		if out.Err = h.open(ctx); out.Err != nil {
			return out
		}
		asks = append(asks, func() { clusterErr = h.checkNode(ctx, &out) })
	}
	together(asks...)
	out.Facts, out.Items, out.Folder, out.Others = reply.Facts, reply.Items, reply.Folder, reply.Others
	if out.Err = clusterErr; out.Err == nil {
		out.Err = err
	}
	for _, i := range out.Items {
		if i.Err != nil && out.Err == nil {
			out.Err = &steps.Error{Code: i.Err.Code, Summary: i.Err.Summary, Detail: i.Key.String() + ": " +
				i.Err.Detail, Remedy: i.Err.Remedy}
		}
	}
	if out.Err == nil {
		out.Err = h.sameMachine(out)
	}
	return out
}

func (h leaving) leaveRequest() executor.LeaveRequest {
	return executor.LeaveRequest{Node: h.node.Name, Plan: h.planName(), OverSSH: h.node.Connection.SSH != nil}
}

// checkNode looks at the Node object and its pods.
func (h leaving) checkNode(ctx context.Context, out *LeaveHost) error {
	api, err := h.cluster(ctx)
	if err != nil {
		return err
	}
	n, err := api.Node(ctx, h.node.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	out.KubeNode = &n
	if err := h.ofEnvironment(n); err != nil {
		return err
	}
	if !n.Ready {
		return nil // no kubelet would end its pods; they go with the Node
	}
	pods, err := api.Pods(ctx, h.node.Name)
	if err != nil {
		return err
	}
	var blocked []kube.Blocked
	if out.Evict, out.Stay, blocked = kube.DrainPlan(pods, h.options.Drain); len(blocked) > 0 {
		return drainError(&kube.BlockedError{Pods: blocked})
	}
	return nil
}

// sameMachine refuses a Node object that another machine keeps.
func (h leaving) sameMachine(l LeaveHost) error {
	want := h.node.ManagementIP
	if want == "" {
		want = l.Facts.ManagementIP
	}
	if l.KubeNode == nil || l.KubeNode.InternalIP == "" || want == "" || l.KubeNode.InternalIP == want {
		return nil
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "the Node is another machine's",
		Detail: fmt.Sprintf("the Node %s has the address %s, this machine has %s", h.node.Name, l.KubeNode.InternalIP, want),
		Remedy: "look at the node's name and connection in the plan; --without-cluster leaves the Node alone and " +
			"clears this machine only"}
}

// Leave takes every host out of the cluster and undoes what nodejoin did to it: the
// Node is cordoned and drained, the host restored, the Node object deleted, and
// nodejoin's own folder goes last. CheckLeave must have run; a host that it found in
// no state to leave is left as it is. The next Leave finishes an interrupted one.
func (s *Session) Leave(ctx context.Context, r *LeaveReport, o LeaveOptions) *LeaveSummary {
	start := time.Now()
	sum := &LeaveSummary{Hosts: make([]LeaveResult, len(s.hosts))}
	index := s.index()
	letGo, held := s.holdCluster(ctx)
	defer letGo()
	s.each(ctx, func(ctx context.Context, h *hostRun) {
		i := index[h]
		sum.Hosts[i] = LeaveResult{Node: h.node.Name, Err: r.Hosts[i].Err}
		if r.Hosts[i].Err == nil {
			sum.Hosts[i].Err = held
		}
		if sum.Hosts[i].Err == nil {
			leaving{h, o}.run(ctx, r.Hosts[i], &sum.Hosts[i])
		}
		if sum.Hosts[i].Err != nil {
			h.state("failed", "")
		} else {
			h.state("done", "")
		}
	}, func(h *hostRun, err error) { sum.Hosts[index[h]] = LeaveResult{Node: h.node.Name, Err: err} })
	sum.Duration = time.Since(start)
	return sum
}

func (h leaving) run(ctx context.Context, l LeaveHost, res *LeaveResult) {
	h.state("applying", "")
	res.Others = l.Others
	if res.Err = h.hold(ctx); res.Err != nil {
		return
	}
	defer h.letGo(ctx)
	// phase is skipped once something failed.
	phase := func(id string, action steps.Action, f func() error) {
		if res.Err != nil {
			return
		}
		if err := h.shown(ctx, part{id: id, kind: "leave", action: action}, f); err != nil {
			res.Failed, res.Err = id, err
		}
	}
	began := time.Now()
	if l.made() {
		h.note(ctx, began, res) // a finished leave removes it
	}
	if l.KubeNode != nil {
		if !l.KubeNode.Unschedulable {
			phase("cordon", steps.ActionUpdate, func() error { return absentIsFine(h.api.Cordon(ctx, h.node.Name, "leave")) })
		}
		if l.KubeNode.Ready {
			phase("drain", steps.ActionUpdate, func() error { return h.drain(ctx, h.options.Drain) })
		}
	}
	if res.Err == nil {
		h.undo(ctx, res)
	}
	if h.withCluster(h.options) {
		phase("node_object", steps.ActionDelete, func() error { return h.deleteNode(ctx, l.KubeNode) })
		res.NodeGone = res.Err == nil
	}
	phase("own_folder", steps.ActionDelete, func() error {
		reply, err := retryDropped(ctx, h.hostRun, "applying", func() (executor.ForgetReply, error) {
			return h.conn.Forget(ctx, h.leaveRequest())
		})
		res.Files = reply.Left
		return err
	})
	if res.Err != nil && l.made() {
		h.note(ctx, began, res)
	}
	h.disconnect()
}

// note records on the machine that its leave has begun, or has failed.
func (h leaving) note(ctx context.Context, began time.Time, res *LeaveResult) {
	n := executor.RunNote{Holder: h.opt.Holder, Ended: time.Now().UTC().Truncate(time.Second), Took: time.Since(began),
		Version: h.opt.Version, Plan: h.opt.PlanDigest, Result: "interrupted", Changed: []string{}, Failed: res.Failed}
	n.Holder.Command = executor.LeaveCommand
	if res.Err != nil {
		n.Error = steps.AsError(res.Err).Summary
		if steps.AsError(res.Err).Code != steps.CodeInterrupted {
			n.Result = "failed"
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteFor)
	defer cancel()
	h.sendNote(ctx, n, false)
}

// undo makes the host undo what nodejoin did. That removes networks, and with them perhaps the connection.
func (h leaving) undo(ctx context.Context, res *LeaveResult) {
	reply, err := ask(ctx, h.hostRun, "applying", wire.Leave, h.leaveRequest())
	res.Items, res.Mutations = reply.Items, reply.Mutations
	switch {
	case ctx.Err() != nil:
		res.Err = steps.Interrupted("leave")
	case err != nil:
		res.Err = err
	case reply.Err != nil:
		res.Failed, res.Err = reply.Failed, reply.Err
	}
}

// deleteNode deletes the Node object that was looked at, with the bootstrap tokens of the node and what tokens of
// service accounts are bound to, and asks whether it is gone.
func (h *hostRun) deleteNode(ctx context.Context, n *kube.Node) error {
	tokens, err := h.api.BootstrapTokens(ctx, h.node.Name)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if err := h.api.RevokeToken(ctx, t.ID); err != nil {
			return err
		}
	}
	if err := h.api.EndTokens(ctx, h.node.Name); err != nil {
		return err
	}
	if n != nil {
		if err := h.api.DeleteNode(ctx, h.node.Name, n.UID); err != nil {
			return err
		}
	}
	have, err := h.api.Node(ctx, h.node.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return &steps.Error{Code: steps.CodeNotConverged, Summary: "did not converge",
		Detail: fmt.Sprintf("the Node %s (UID %s) is in the cluster: it was registered again meanwhile", have.Name,
			have.UID), Remedy: "leave again"}
}
