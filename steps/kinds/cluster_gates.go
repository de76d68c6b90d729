package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

var nodeRegisteredKind = steps.Kind{Name: "node_registered", Place: steps.OnCluster, Waits: true,
	Timeout: 5 * time.Minute, Doc: "a gate: the Node object exists, with its pod CIDR and the version of its kubelet",
	Outputs: []string{PodCIDR, "subnet_gateway", "uid"},
	New:     func() any { return &NodeRegistered{} }}

var nodeReadyKind = steps.Kind{Name: "node_ready", Place: steps.OnCluster, Waits: true,
	Timeout: 5 * time.Minute, Doc: "a gate: the Node is Ready",
	New: func() any { return &NodeReady{} }}

// PodCIDR is the output, of whatever kind, that is the Node's pod CIDR.
const PodCIDR = "pod_cidr"

// NodeRegistered waits for the Node and its pod CIDR, and says of the certificate
// request what it sees. Outputs: uid, and where the Node has a pod CIDR that and the
// first address of it, subnet_gateway.
type NodeRegistered struct {
	PodCIDR bool   `json:"pod_cidr,omitempty" doc:"wait for spec.podCIDR too"`
	Version string `json:"version,omitempty" doc:"kubelet version that the Node must report, to the first '-' or '+'"`
}

// reports reports whether the Node is one of the wanted kubelet.
func (n *NodeRegistered) reports(node kube.Node) bool {
	have, _, _ := strings.Cut(strings.TrimPrefix(node.KubeletVersion, "v"), "+")
	have, _, _ = strings.Cut(have, "-")
	return n.Version == "" || have == strings.TrimPrefix(n.Version, "v")
}

func (n *NodeRegistered) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	node, err := r.Node(ctx, e.Node)
	var c steps.Change
	if err == nil {
		c.Outputs = map[string]string{"uid": node.UID}
		if node.PodCIDR != "" {
			c.Outputs[PodCIDR], c.Outputs["subnet_gateway"] = node.PodCIDR, gateway(node.PodCIDR)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return steps.Change{Action: steps.ActionWait, Reason: notRegistered}, nil
	case err != nil:
		return steps.Change{}, err
	case !n.reports(node):
		c.Action, c.Reason = steps.ActionWait, n.otherKubelet(node)
	case node.PodCIDR == "" && n.PodCIDR:
		c.Action, c.Reason = steps.ActionWait, "the Node has no pod CIDR yet"
	}
	return c, nil
}

// gateway is the first address of a pod CIDR with its length, as flannel writes it into
// FLANNEL_SUBNET (flannel pkg/subnet/subnet.go, WriteSubnetFile); "" where it is none.
func gateway(cidr string) string {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return ""
	}
	return netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits()).String()
}

func (n *NodeRegistered) otherKubelet(node kube.Node) string {
	return fmt.Sprintf("the kubelet of the Node is %s, not %s yet", node.KubeletVersion, n.Version)
}

func (n *NodeRegistered) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	var denied deniedRequest
	var other time.Time // since when the Node has reported a version that is neither its earlier one nor the wanted
	var stuck time.Time // since when there was neither a request nor a token to make one with
	return steps.Outcome{}, await(ctx, e, "the Node did not register in time with the kubelet of the plan",
		func(ctx context.Context) (condition, error) {
			node, err := a.Node(ctx, e.Node)
			switch {
			case err == nil && !n.reports(node):
				s := condition{observed: n.otherKubelet(node),
					remedy: "look at the kubelet's log on the machine, and at the artifact " +
						"kubernetes_node: when kubernetes changes in the plan, its digest does too"}
				if e.Kubelet == nil || *e.Kubelet == node.KubeletVersion {
					return s, nil // it may be what the Node says of an earlier kubelet
				}
				if other.IsZero() {
					other = time.Now()
				}
				if time.Since(other) >= otherGrace {
					return condition{}, &steps.Error{Code: steps.CodeOtherVersion, Summary: "the kubelet is another version",
						Remedy: "give the artifact kubernetes_node the digest of the version in the plan, or write the version of the " +
							"artifact into the plan",
						Detail: fmt.Sprintf("the plan wants Kubernetes %s, and the kubelet that this run has started has registered "+
							"as %s", n.Version, node.KubeletVersion)}
				}
				return s, nil
			case err == nil && (node.PodCIDR != "" || !n.PodCIDR):
				return condition{reached: true}, nil
			case err == nil:
				return condition{observed: fmt.Sprintf(
					"the Node %s is there, without a pod CIDR; the cluster's controller manager "+
						"assigns none", e.Node),
					remedy: "run kube-controller-manager with --allocate-node-cidrs and a --cluster-cidr that has free ranges"}, nil
			case !errors.Is(err, fs.ErrNotExist):
				return condition{}, err
			}
			requests, err := a.SigningRequests(ctx, e.Node)
			if errors.Is(err, kube.ErrForbidden) {
				return condition{observed: "no Node " + e.Node + " yet; its certificate request cannot be seen: " + err.Error(),
					remedy: "look at the kubelet's log on the machine"}, nil
			}
			if err != nil {
				return condition{}, err
			}
			s := requestCondition(e.Node, requests)
			if len(requests) > 0 {
				stuck = time.Time{}
				return s, denied.check(requests, s)
			}
			tokens, err := a.BootstrapTokens(ctx, e.Node)
			tokens = slices.DeleteFunc(tokens, func(t kube.BootstrapToken) bool { return !time.Now().Before(t.Expires) })
			if err != nil || len(tokens) > 0 {
				stuck = time.Time{}
				return s, denied.check(requests, s)
			}
			s.observed += ", and no bootstrap token of the node is left: it has expired or was removed"
			s.remedy = "apply again, which mints a new token; where the machine is slow, give the token a longer life: join " +
				"\"bootstrap_token\" { ttl = \"30m\" }"
			if stuck.IsZero() {
				stuck = time.Now()
			}
			if time.Since(stuck) >= tokenGrace {
				return condition{}, &steps.Error{Code: steps.CodeFailed, Summary: "the bootstrap token has ended",
					Detail: s.observed,
					Remedy: s.remedy}
			}
			return s, denied.check(requests, s)
		})
}

// otherGrace is how long a Node may report a version that nobody wants, until the kubelet
// that this run has started sets it right: it does when it registers
// (kubernetes pkg/kubelet/kubelet_node_status.go, tryRegisterWithAPIServer).
const otherGrace = 20 * time.Second

// tokenGrace is how long a kubelet that needs no token any more, for it has a
// certificate, may take to register: it tries every few seconds at most
// (kubernetes pkg/kubelet/kubelet_node_status.go, registerWithAPIServer). One without
// a certificate can do nothing once its token has ended.
const tokenGrace = 30 * time.Second

// requestCondition says what the newest certificate request of a node without Node
// object means.
func requestCondition(node string, requests []kube.SigningRequest) condition {
	if len(requests) == 0 {
		return condition{observed: "no certificate request of system:node:" + node + " has reached the cluster",
			remedy: "look at the kubelet's log on the machine: it cannot reach the API server, or its bootstrap token or " +
				"the CA does not hold"}
	}
	q := requests[0]
	switch {
	case q.Denied:
		return condition{observed: fmt.Sprintf("the certificate request %s was denied%s", q.Name, suffix(q.Message)),
			remedy: fmt.Sprintf("find out who denied it; then `kubectl delete csr %s` and apply again", q.Name)}
	case !q.Approved:
		role, group := "nodeclient", "system:bootstrappers:kubeadm:default-node-token"
		if q.Requestor == "system:node:"+node {
			role, group = "selfnodeclient", "system:nodes"
		}
		return condition{observed: fmt.Sprintf("the certificate request %s of %s is pending; nobody approves it", q.Name,
			q.Requestor),
			remedy: fmt.Sprintf("approve it with `kubectl certificate approve %s`, or let the cluster do it: bind the "+
				"ClusterRole system:certificates.k8s.io:certificatesigningrequests:%s to the group %s", q.Name, role,
				group)}
	case !q.Issued:
		return condition{observed: fmt.Sprintf(
			"the certificate request %s is approved, but no certificate was issued%s", q.Name,
			suffix(q.Message)),
			remedy: "see that kube-controller-manager runs its signing controller (--cluster-signing-cert-file and " +
				"--cluster-signing-key-file)"}
	}
	return condition{observed: fmt.Sprintf(
		"the certificate of %s was issued, but the kubelet has not registered the Node %s",
		q.Name, node),
		remedy: "look at the kubelet's log on the machine"}
}

func suffix(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// deniedGrace is how long a request that was denied before the wait began may
// still be that of an earlier join, until the kubelet files a new one.
const deniedGrace = 20 * time.Second

type deniedRequest struct {
	looked  bool
	earlier string // the denied request at the first look
	since   time.Time
}

// check fails where the newest request is denied and will stay so.
func (d *deniedRequest) check(requests []kube.SigningRequest, s condition) error {
	first := !d.looked
	d.looked = true
	if len(requests) == 0 || !requests[0].Denied {
		return nil
	}
	if first {
		d.earlier, d.since = requests[0].Name, time.Now()
	}
	if requests[0].Name == d.earlier && time.Since(d.since) < deniedGrace {
		return nil
	}
	return &steps.Error{Code: steps.CodeDenied, Summary: "certificate request denied",
		Detail: s.observed, Remedy: s.remedy}
}

// NodeReady waits for the Ready condition.
type NodeReady struct{}

func (n *NodeReady) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	node, err := r.Node(ctx, e.Node)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return steps.Change{Action: steps.ActionWait, Reason: notRegistered}, nil
	case err != nil:
		return steps.Change{}, err
	case !node.Ready:
		return steps.Change{Action: steps.ActionWait, Reason: NotReady(node)}, nil
	}
	return steps.Change{}, nil
}

func (n *NodeReady) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	return steps.Outcome{}, await(ctx, e, "the Node did not become Ready in time",
		func(ctx context.Context) (condition, error) {
			node, err := a.Node(ctx, e.Node)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return condition{observed: "there is no Node " + e.Node, remedy: "look at the kubelet's log on the machine"}, nil
			case err != nil:
				return condition{}, err
			case !node.Ready:
				return condition{observed: NotReady(node),
					remedy: "look at the kubelet's log, and at the CNI configuration where the " +
						"reason names the network"}, nil
			}
			return condition{reached: true}, nil
		})
}

// NotReady says why a Node is not Ready.
func NotReady(n kube.Node) string {
	if n.ReadyReason == "" {
		return "the Node is not Ready; the kubelet has not said why"
	}
	return "the Node is not Ready: " + n.ReadyReason
}

// AwaitNode waits until why says nothing ("") of the Node, or ctx ends; summary is that of
// the error then.
func AwaitNode(ctx context.Context, r kube.Reader, node, summary string, progress func(event.StepProgress),
	why func(kube.Node) string) error {
	return await(ctx, &steps.Env{Node: node, Progress: progress}, summary, func(ctx context.Context) (condition, error) {
		n, err := r.Node(ctx, node)
		if errors.Is(err, fs.ErrNotExist) {
			return condition{observed: "there is no Node " + node, remedy: "look at the kubelet's log on the machine"}, nil
		}
		if err != nil {
			return condition{}, err
		}
		s := condition{observed: why(n), remedy: "look at the kubelet's log on the machine"}
		s.reached = s.observed == ""
		return s, nil
	})
}

// condition is one look at what a gate waits for.
type condition struct {
	reached  bool
	observed string // what was found instead
	remedy   string // what fixes it, if waiting does not
}

// awayMost is how long an API server may stay away during the wait of a gate (a restart)
// before the step fails.
const awayMost = 30 * time.Second

// await looks until the gate is reached or ctx ends. What is seen is reported when
// it changes, and is the detail of the timeout.
func await(ctx context.Context, e *steps.Env, summary string, look func(context.Context) (condition, error)) error {
	var last condition
	var awaySince time.Time
	var failed error
	start := time.Now()
	err := wait.Until(ctx, lookMost, func() (bool, error) {
		s, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return false, nil //nolint:nilerr // the wait reports why its context ended
		case errors.Is(err, kube.ErrUnreachable):
			if awaySince.IsZero() {
				awaySince = time.Now()
			}
			if time.Since(awaySince) >= awayMost {
				failed = fmt.Errorf("while waiting for the Node %s: %w", e.Node, err)
				return false, failed
			}
			s = condition{observed: kube.ErrUnreachable.Error(), remedy: last.remedy}
		case err != nil:
			failed = err
			return false, failed
		case s.reached:
			return true, nil
		default:
			awaySince = time.Time{}
		}
		if s.observed != last.observed {
			last = s
			e.Progress(event.StepProgress{Note: s.observed})
		}
		return false, nil
	})
	if err == nil || failed != nil {
		return err
	}
	return awaitEnd(ctx, summary, time.Since(start), last)
}

// awaitEnd is the error of a wait whose context ended.
func awaitEnd(ctx context.Context, summary string, waited time.Duration, last condition) error {
	cause := context.Cause(ctx)
	var se *steps.Error
	timedOut := errors.Is(cause, context.DeadlineExceeded) || errors.As(cause, &se) && se.Code == steps.CodeTimeout
	if !timedOut {
		return cause
	}
	detail := fmt.Sprintf("waited %s", waited.Round(time.Second))
	if last.observed != "" {
		detail += "; " + last.observed
	}
	return &steps.Error{Code: steps.CodeTimeout, Summary: summary, Detail: detail, Remedy: last.remedy}
}
