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
	// BootstrapTokens lists the tokens that nodejoin minted for a node and that still exist.
	BootstrapTokens(ctx context.Context, node string) ([]BootstrapToken, error)
	// SigningRequests lists the client-certificate requests for `system:node:<node>`, newest first.
	SigningRequests(ctx context.Context, node string) ([]SigningRequest, error)
	// ServiceAccount tells whether the account exists and carries the wanted rules.
	ServiceAccount(ctx context.Context, want ServiceAccount) (ServiceAccountState, error)
}

// API observes and changes a cluster.
type API interface {
	Reader
	// MintToken makes a bootstrap token for one node; the secret is labelled with its name.
	MintToken(ctx context.Context, node string, ttl time.Duration) (BootstrapToken, error)
	// RevokeToken deletes a bootstrap token; absent is no error.
	RevokeToken(ctx context.Context, id string) error
	// EnsureServiceAccount makes or completes the account with its role and binding.
	EnsureServiceAccount(ctx context.Context, want ServiceAccount) error
	// ServiceAccountToken mints a token of the account by TokenRequest.
	ServiceAccountToken(ctx context.Context, namespace, name string, ttl time.Duration) (token string, expires time.Time, err error)
	// SetLabels sets these labels on a Node and removes those named; others stay.
	SetLabels(ctx context.Context, node string, set map[string]string, remove []string) error
	// SetTaints adds or updates these taints (by key and effect) and removes those named; others stay.
	SetTaints(ctx context.Context, node string, set []Taint, remove []Taint) error
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
	Name           string
	Ready          bool
	ReadyReason    string // reason and message of the Ready condition
	PodCIDR        string // empty until assigned
	InternalIP     string
	Labels         map[string]string
	Annotations    map[string]string
	Taints         []Taint
	KubeletVersion string
	Unschedulable  bool
}

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
	ErrForbidden    = errors.New("the credentials lack a permission")
)
