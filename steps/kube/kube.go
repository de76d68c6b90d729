// Package kube is the boundary between nodejoin and a Kubernetes cluster: the
// few things a join asks of it, in types of its own. steps/cluster implements it
// with client-go on the controller; the sandbox has one in a file.
package kube

import (
	"context"
	"errors"
	"time"
)

// Reader observes a cluster. Absence matches fs.ErrNotExist; an API server that
// does not answer is ErrUnreachable; never the one for the other.
type Reader interface {
	Info(ctx context.Context) (Info, error)
	Node(ctx context.Context, name string) (Node, error)
	// Nodes lists all Nodes, by name.
	Nodes(ctx context.Context) ([]Node, error)
	// LinuxNodes lists Nodes that run Linux, by name; at most so many, chosen by the
	// API server.
	LinuxNodes(ctx context.Context, most int) ([]Node, error)
	// ConfigMap reads the data of a ConfigMap.
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	// Pods lists the pods that are bound to a node, finished ones too, by namespace and name.
	Pods(ctx context.Context, node string) ([]Pod, error)
	// Services lists those of all namespaces, by namespace and name.
	Services(ctx context.Context) ([]Service, error)
	// BootstrapTokens lists the tokens that nodejoin minted for a node and that still exist.
	BootstrapTokens(ctx context.Context, node string) ([]BootstrapToken, error)
	// SigningRequests lists the client-certificate requests for `system:node:<node>`, newest first.
	SigningRequests(ctx context.Context, node string) ([]SigningRequest, error)
	// ServingRequests lists the serving-certificate requests that the kubelet of a node
	// made as `system:node:<node>`, newest first.
	ServingRequests(ctx context.Context, node string) ([]ServingRequest, error)
	// NodeEvents lists the events of a Node that the cluster still keeps, oldest first.
	NodeEvents(ctx context.Context, node string) ([]NodeEvent, error)
	// ServiceAccount tells whether the account exists and carries the wanted rules.
	ServiceAccount(ctx context.Context, want ServiceAccount) (ServiceAccountState, error)
	// Manifest tells what applying it would change, by a server-side dry run. Errors
	// besides those of any question: *OwnershipError, unless it is forced; ErrNotServed;
	// what the API server would refuse of the object.
	Manifest(ctx context.Context, want Manifest) (ManifestState, error)
}

// API observes and changes a cluster.
type API interface {
	Reader
	Workloads
	// MintToken makes a bootstrap token for one node; the secret is labelled with its name.
	MintToken(ctx context.Context, node string, ttl time.Duration) (BootstrapToken, error)
	// RevokeToken deletes a bootstrap token; absent is no error.
	RevokeToken(ctx context.Context, id string) error
	// ApproveRequest approves a certificate signing request; approved already is no error.
	ApproveRequest(ctx context.Context, name string) error
	// EnsureServiceAccount makes or completes the account with its role and binding.
	EnsureServiceAccount(ctx context.Context, want ServiceAccount) error
	// ApplyManifest makes the object have the fields of want, by server-side apply with
	// nodejoin as their manager; those that it had from nodejoin before and has no more
	// go. Errors are those of Manifest.
	ApplyManifest(ctx context.Context, want Manifest) error
	// ServiceAccountToken mints a token of the account by TokenRequest.
	ServiceAccountToken(ctx context.Context, namespace, name string, ttl time.Duration) (token string, expires time.Time, err error)
	// SetLabels sets these labels on a Node and removes those named; others stay.
	SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error
	// SetTaints adds or updates these taints (by key and effect) and removes those named; others stay.
	SetTaints(ctx context.Context, node string, set []Taint, remove []Taint) error
	// SetAnnotations sets these annotations on a Node and removes those named; others stay.
	SetAnnotations(ctx context.Context, node string, set map[string]string, remove []string) error

	// Cordon makes a Node unschedulable and notes that nodejoin did, in CordonedBy
	// with why. One that is unschedulable already, by whomever, stays as it is.
	Cordon(ctx context.Context, node, why string) error
	// Uncordon makes a Node schedulable that Cordon made unschedulable; one that
	// somebody else cordoned, or cordoned anew, stays so, which is no error. CordonedBy
	// goes in any case.
	Uncordon(ctx context.Context, node string) error
	// Evict asks for the eviction of a pod (policy/v1): its disruption budget may
	// refuse for now, which is ErrBudget. Absent, or another pod of that name by now,
	// is no error. The pod is gone only when Pods does not list it any more.
	Evict(ctx context.Context, p Pod) error
	// TakeLease makes a Lease of kube-system (coordination.k8s.io/v1) the holder's, or
	// renews it. It takes it from a holder whose time has run out and from the one
	// named in from (""=nobody); what that Lease was is the reply, else a zero one. A
	// Lease of anybody else is ErrHeld, and the reply.
	TakeLease(ctx context.Context, want Lease, from string) (Lease, error)
	// ReleaseLease deletes the Lease if it is the holder's; absent, or another's by
	// now, is no error.
	ReleaseLease(ctx context.Context, name, holder string) error
	// DeleteNode removes the Node with this UID. Absent is no error; another Node of
	// that name is ErrChanged.
	DeleteNode(ctx context.Context, name, uid string) error
}

// Info is what a node needs to know of the cluster.
type Info struct {
	Server  string // URL of the API server, as the controller reaches it
	CA      string // PEM
	CAHash  string // "sha256:<hex>" of the CA's public key (SubjectPublicKeyInfo), as kubeadm pins it
	Version string // "v1.36.3"
}

// Node is the part of a Node object that a join looks at.
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
	KubeletVersion string
	Unschedulable  bool
	// OwnCordon is why nodejoin has made it unschedulable; "" = it has not, or somebody
	// else has since, whatever CordonedBy says.
	OwnCordon string
}

// CordonedBy is the annotation of a Node that nodejoin has cordoned; its value says why.
const CordonedBy = "nodejoin.dev/cordoned"

// PlanOf is the annotation of a Node that was joined by nodejoin; its value is the
// name of the plan's cluster block.
const PlanOf = "nodejoin.dev/plan"

// Joining is the taint of a Node that has registered and is not verified yet: no pod
// goes there that does not tolerate it.
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
	Holder string // identity, compared only
	// Note is for people and programs who the holder is; kept in the annotation LeaseNote.
	Note     string
	Duration time.Duration // whole seconds, after Renewed: then it is anybody's
	Renewed  time.Time     // by the clock of the holder
}

// LeaseNote is the annotation of a Lease that says who its holder is.
const LeaseNote = "nodejoin.dev/holder"

// Taken judges whether a Lease that is there is another's than want's, as TakeLease does.
func (l Lease) Taken(want Lease, from string, now time.Time) bool {
	return l.Holder != "" && l.Holder != want.Holder && l.Holder != from && now.Before(l.Renewed.Add(l.Duration))
}

// Pod is the part of a pod that a drain looks at.
type Pod struct {
	Namespace, Name, UID string
	// Controller is the kind of the controller that would make it anew, "ReplicaSet";
	// empty: nothing would.
	Controller string
	Mirror     bool // the kubelet's image of a static pod; it goes with its file
	EmptyDir   bool // it has a volume whose data end with it
	Finished   bool // Succeeded or Failed
	Ending     bool // its deletion was asked for
	// Waiting is why a container of it does not run, "ImagePullBackOff: Back-off pulling
	// image"; "" = all run, or the pod is finished.
	Waiting string
	Created time.Time
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Service is the part of a service that is looked at.
type Service struct {
	Namespace, Name string
	ClusterIP       string // "" = none: headless, or of type ExternalName
	NodePorts       []int32
}

func (s Service) String() string { return s.Namespace + "/" + s.Name }

// Taint of a Node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule, NoExecute
}

// BootstrapToken: Secret is known only when just minted.
type BootstrapToken struct {
	ID      string
	Secret  string
	Expires time.Time
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

// ServingRequest is a request for the certificate that a kubelet serves its API with
// (signer kubernetes.io/kubelet-serving), and what it asks for.
type ServingRequest struct {
	SigningRequest
	Groups       []string // of the requestor
	Usages       []string // as the API writes them: "server auth"
	CommonName   string
	Organization []string
	DNSNames     []string
	IPs          []string
	Others       []string // names of other sorts: mail addresses, URIs
}

// ServiceAccount is an account of a node component, with the rules it needs.
type ServiceAccount struct {
	Namespace, Name string
	// ClusterRole to bind: an existing one by name, or with Rules one that is made.
	ClusterRole string
	Rules       []Rule
}

// Rule of a ClusterRole.
type Rule struct {
	APIGroups []string `json:"api_groups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// ServiceAccountState: what is missing, in words; empty means complete.
type ServiceAccountState struct {
	Missing []string
}

// Errors that say what a caller can do.
var (
	ErrUnreachable  = errors.New("the API server does not answer")
	ErrUnauthorized = errors.New("the API server refused the credentials")
	ErrForbidden    = errors.New("the API server does not allow it")
	ErrBudget       = errors.New("a disruption budget does not allow the eviction now")
	ErrChanged      = errors.New("it is not the object that was looked at")
	ErrHeld         = errors.New("another one holds it")
)
