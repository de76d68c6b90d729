// Package kube is the boundary between nodejoin and a Kubernetes cluster: the few operations that a join
// needs, in types of its own. steps/cluster implements it with client-go on the controller; the sandbox has
// an implementation in a file.
package kube

import (
	"context"
	"errors"
	"time"
)

// Reader observes a cluster. Absence matches fs.ErrNotExist; an API server that does not answer is
// ErrUnreachable; the two are never confused.
type Reader interface {
	Info(ctx context.Context) (Info, error)
	Node(ctx context.Context, name string) (Node, error)
	// Nodes lists all Nodes, by name.
	Nodes(ctx context.Context) ([]Node, error)
	// OutOfService lists the Nodes that are cordoned or not Ready, by name. It costs little however many there are:
	// who is cordoned is asked now; whether a Node is Ready may be what a watch had seconds ago.
	OutOfService(ctx context.Context) ([]Node, error)
	// LinuxNodes lists Nodes that run Linux, by name; at most limit of them, chosen by the API server.
	LinuxNodes(ctx context.Context, most int) ([]Node, error)
	// ConfigMap reads the data of a ConfigMap.
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	// Pods lists the pods that are bound to a node, including finished ones, by namespace and name.
	Pods(ctx context.Context, node string) ([]Pod, error)
	// Services lists the services of all namespaces, by namespace and name.
	Services(ctx context.Context) ([]Service, error)
	// DaemonSets lists those that want a pod on a node, by its labels and taints, by namespace and name.
	DaemonSets(ctx context.Context, node Node) ([]DaemonSet, error)
	// BootstrapTokens lists the tokens that nodejoin minted for a node and that still exist.
	BootstrapTokens(ctx context.Context, node string) ([]BootstrapToken, error)
	// SigningRequests lists the client-certificate requests for `system:node:<node>`, newest first.
	SigningRequests(ctx context.Context, node string) ([]SigningRequest, error)
	// ServingRequests lists the serving-certificate requests that the kubelet of a node
	// made as `system:node:<node>`, newest first.
	ServingRequests(ctx context.Context, node string) ([]ServingRequest, error)
	// NodeEvents lists the events of a Node that the cluster still keeps, oldest first.
	NodeEvents(ctx context.Context, node string) ([]NodeEvent, error)
	// ServiceAccount returns what the account lacks of the wanted rules.
	ServiceAccount(ctx context.Context, want ServiceAccount) (ServiceAccountState, error)
	// Manifest returns what applying it would change, by a server-side dry run. Errors besides those of every
	// request: *OwnershipError, unless forced; ErrNotServed; what the API server would reject of the object.
	Manifest(ctx context.Context, want Manifest) (ManifestState, error)
	// ApplySet reads the set and lists its members; no set is no error.
	ApplySet(ctx context.Context, set ApplySet) (SetState, error)
}

// API observes and changes a cluster.
type API interface {
	Reader
	Workloads
	// MintToken creates a bootstrap token for one node; the secret is labelled with the node's name.
	MintToken(ctx context.Context, node string, ttl time.Duration) (BootstrapToken, error)
	// MintCertificate has the cluster sign a client certificate of system:node:<node>, in place of a bootstrap token.
	// The secret of its ID authenticates nobody: what is bound to it ends with it. Where the cluster would not approve
	// what a kubelet requests with the certificate, it is an error.
	MintCertificate(ctx context.Context, node string, ttl time.Duration) (BootstrapToken, error)
	// RevokeToken deletes a bootstrap token; it is not an error if it is absent.
	RevokeToken(ctx context.Context, id string) error
	// ApproveRequest approves a certificate signing request; it is not an error if it is approved already.
	ApproveRequest(ctx context.Context, name string) error
	// EnsureServiceAccount creates or completes the account with its role and binding.
	EnsureServiceAccount(ctx context.Context, want ServiceAccount) error
	// ApplyManifest sets the fields of want on the object, by server-side apply with nodejoin as their manager;
	// fields that nodejoin set earlier and want no longer has are removed. Errors are those of Manifest.
	ApplyManifest(ctx context.Context, want Manifest) error
	// DeleteObject deletes an object with what it owns. It is not an error if it is absent; another one of that
	// name is ErrChanged.
	DeleteObject(ctx context.Context, m Member) error
	// ServiceAccountToken mints a token of an account. One that ends with a Node is bound to the Node or, where the
	// API server binds no tokens to Nodes, to TokenSecret. A Node of another UID is ErrChanged.
	ServiceAccountToken(ctx context.Context, want TokenRequest) (token string, expires time.Time, err error)
	// EndTokens ends the tokens that end with a Node of that name, except for those that are bound to the Node
	// itself.
	EndTokens(ctx context.Context, node string) error
	// SetLabels sets these labels on a Node and removes those named; others stay.
	SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error
	// SetTaints adds or updates these taints (by key and effect) and removes those named; others stay.
	SetTaints(ctx context.Context, node string, set []Taint, remove []Taint) error
	// SetAnnotations sets these annotations on a Node and removes those named; others stay.
	SetAnnotations(ctx context.Context, node string, set map[string]string, remove []string) error
	// SetCondition sets a condition of a Node, by its type; others stay.
	SetCondition(ctx context.Context, node string, c Condition) error

	// Cordon creates a Node unschedulable and records in CordonedBy that nodejoin did so and why. A Node that is
	// already unschedulable, by whomever, stays as it is.
	Cordon(ctx context.Context, node, why string) error
	// Uncordon creates a Node schedulable that Cordon made unschedulable. A Node that somebody else has cordoned,
	// also in addition, stays cordoned, which is not an error. CordonedBy is removed in any case.
	Uncordon(ctx context.Context, node string) error
	// Evict requests the eviction of a pod (policy/v1): its disruption budget may reject it for now, which is
	// ErrBudget. It is not an error if the pod is absent, or another pod has that name by now. The pod is gone
	// only when Pods no longer lists it.
	Evict(ctx context.Context, p Pod) error
	// TakeLease returns the holder a Lease of kube-system (coordination.k8s.io/v1), or renews it. It replaces a
	// holder whose time has run out and the one named in from ("" = nobody); it returns what that Lease was,
	// otherwise a zero one. A Lease of anybody else is ErrHeld, and is returned.
	TakeLease(ctx context.Context, want Lease, from string) (Lease, error)
	// Leases lists the Leases of kube-system whose names begin with prefix, by name, also those that have run out.
	Leases(ctx context.Context, prefix string) ([]Lease, error)
	// ReleaseLease deletes the Lease if the holder has it; it is not an error if it is absent or another's by
	// now.
	ReleaseLease(ctx context.Context, name, holder string) error
	// DeleteNode removes the Node with this UID. It is not an error if it is absent; another Node of that name
	// is ErrChanged.
	DeleteNode(ctx context.Context, name, uid string) error
	// Close ends what goes on in the background. Calls may still be made.
	Close()
}

// Info is what a node needs to know about the cluster.
type Info struct {
	Server  string // URL of the API server, as the controller reaches it
	CA      string // PEM
	CAHash  string // "sha256:<hex>" of the CA's public key (SubjectPublicKeyInfo), as kubeadm pins it
	Version string // "v1.36.3"
}

// Node holds the fields of a Node object that a join uses.
type Node struct {
	Name        string
	UID         string
	Ready       bool
	ReadyReason string // reason and message of the Ready condition
	// Heartbeat is when the kubelet last reported that condition, by its own clock.
	Heartbeat      time.Time
	PodCIDR        string // empty until assigned
	InternalIP     string
	Labels         map[string]string
	Annotations    map[string]string
	Taints         []Taint
	Conditions     []Condition // those of nodejoin, by their type
	KubeletVersion string
	Unschedulable  bool
	// OwnCordon is why nodejoin has made it unschedulable; "" = it has not, or somebody else has since, whatever
	// CordonedBy says.
	OwnCordon string
}

// Out reports whether the Node is out of service.
func (n Node) Out() bool { return !n.Ready || n.Unschedulable }

// OwnCondition begins the types of the conditions that nodejoin sets.
const OwnCondition = "Nodejoin"

// Condition is a condition of a Node.
type Condition struct {
	Type    string
	Status  string // True, False or Unknown
	Reason  string // one word in CamelCase
	Message string
	Since   time.Time // when Status changed last
}

// CordonedBy is the annotation of a Node that nodejoin has cordoned; its value is the reason.
const CordonedBy = "nodejoin.dev/cordoned"

// PlanOf is the annotation of a Node that nodejoin joined; its value is the name of the plan's cluster block.
const PlanOf = "nodejoin.dev/plan"

// Joining is the taint of a Node that has registered and is not verified yet; only pods that tolerate it are
// scheduled there.
var Joining = Taint{Key: "nodejoin.dev/joining", Effect: "NoSchedule"}

// LabelsOf and TaintsOf are the annotations of a Node with the labels (a JSON object) and
// taints (a JSON list of Taint) that its plan gives it.
const (
	LabelsOf = "nodejoin.dev/labels"
	TaintsOf = "nodejoin.dev/taints"
)

// LastApply is the annotation of a Node with the last run that changed it or its
// machine: JSON with time, version, plan, result and run.
const LastApply = "nodejoin.dev/last-apply"

// NodeEvent is an event of a Node.
type NodeEvent struct {
	Last    time.Time `json:"last"`
	Count   int32     `json:"count"`
	Type    string    `json:"type"` // Normal, Warning
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Source  string    `json:"source"` // component
}

// Lease says who works on a cluster.
type Lease struct {
	Name   string
	Holder string // identity, only compared
	// Note describes the holder for people and programs; kept in the annotation LeaseNote.
	Note     string
	Duration time.Duration // whole seconds, after Renewed: then anybody may take it
	Renewed  time.Time     // by the holder's clock
}

// LeaseNote is the annotation of a Lease that describes its holder.
const LeaseNote = "nodejoin.dev/holder"

// Taken reports whether an existing Lease is another's than want's, by the rules of TakeLease.
func (l Lease) Taken(want Lease, from string, now time.Time) bool {
	return l.Holder != "" && l.Holder != want.Holder && l.Holder != from && now.Before(l.Renewed.Add(l.Duration))
}

// Live reports whether the Lease has a holder whose time has not run out.
func (l Lease) Live(now time.Time) bool {
	return l.Holder != "" && now.Before(l.Renewed.Add(l.Duration))
}

// SigningRequest is a certificate signing request of a kubelet.
type SigningRequest struct {
	Name      string
	Requestor string
	Created   time.Time
	Approved  bool
	Denied    bool
	Issued    bool
	Message   string
}

// ServingRequest is a request for the certificate that a kubelet serves its API with (signer
// kubernetes.io/kubelet-serving), and what it requests.
type ServingRequest struct {
	SigningRequest
	Groups       []string // of the requestor
	Usages       []string // as the API writes them: "server auth"
	CommonName   string
	Organization []string
	DNSNames     []string
	IPs          []string
	Others       []string // other kinds of names: mail addresses, URIs
}

// ServiceAccount is an account of a node component, with the rules it needs.
type ServiceAccount struct {
	Namespace, Name string
	// ClusterRole to bind: an existing one by name, or with Rules one that nodejoin creates.
	ClusterRole string
	Rules       []Rule
	// OwnNode limits the account as the objects of OwnNode do, where the API server binds tokens to Nodes.
	OwnNode bool
	// Node has, with OwnNode, an account of its own (OfNode) where the API server cannot limit this one; "" = it uses
	// this one all the same.
	Node string
}

// Rule of a ClusterRole.
type Rule struct {
	APIGroups []string `json:"api_groups"`
	Resources []string `json:"resources"`
	// ResourceNames are the objects that the rule is about; none = all.
	ResourceNames []string `json:"resource_names,omitempty"`
	Verbs         []string `json:"verbs"`
}

// ServiceAccountState is what is missing, in words; empty means complete.
type ServiceAccountState struct {
	Missing []string
}

// Errors by what a caller can do about them.
var (
	ErrUnreachable  = errors.New("the API server does not answer")
	ErrUnauthorized = errors.New("the API server rejected the credentials")
	ErrForbidden    = errors.New("the API server does not allow it")
	ErrBudget       = errors.New("a disruption budget does not allow the eviction now")
	ErrChanged      = errors.New("it is not the object that was read")
	ErrHeld         = errors.New("another run holds it")
)
