package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

var bootstrapTokenKind = steps.Kind{Name: "bootstrap_token", Place: steps.OnCluster,
	Doc:     "a short-lived bootstrap token of this node, or the absence of any",
	Outputs: []string{"token"},
	New:     func() any { return &BootstrapToken{} }, Render: steps.Renders((*BootstrapToken).rendered)}

var serviceAccountKind = steps.Kind{Name: "service_account", Place: steps.OnCluster, Shared: true,
	Doc: "a ServiceAccount with its role and binding",
	Args: map[string]string{
		"own_node": "the account changes only the Node that its token is bound to and the Leases of nodejoin, writes " +
			"events about that Node only, and may renew that token: a ValidatingAdmissionPolicy and a Role, where the API " +
			"server binds tokens to Nodes (Kubernetes 1.31 and newer)",
		"node": "with own_node: where the API server cannot limit the account so, this Node has an account of its own, " +
			"NAME.NODE, with a ClusterRole that allows changes of this Node only",
	},
	New: func() any { return &ServiceAccount{} }, Render: steps.Renders((*ServiceAccount).rendered)}

var serviceAccountTokenKind = steps.Kind{Name: "service_account_token", Place: steps.OnCluster,
	Doc:     "a token of a ServiceAccount, minted when it is needed",
	Outputs: []string{"token"},
	Args: map[string]string{
		"node_ttl": "life of a token that is bound to the Node itself (Kubernetes 1.31 and newer; before, it is bound to " +
			"a Secret of the Node); default that of ttl",
	},
	New: func() any { return &ServiceAccountToken{} }, Review: steps.Review((*ServiceAccountToken).review),
	Render: steps.Renders((*ServiceAccountToken).rendered)}

// BootstrapToken mints a token (output "token", sensitive) each time it runs; the
// spec's only_if keeps it from running when nothing needs one. With Absent it
// removes every token that was minted for the node.
type BootstrapToken struct {
	TTL    string `json:"ttl,omitempty" doc:"life of the token, default 15m" present:"true"`
	Absent bool   `json:"absent,omitempty" doc:"remove the tokens of this node"`
}

// Default lives of tokens. A join takes minutes.
const (
	defaultBootstrapTTL      = 15 * time.Minute
	defaultServiceAccountTTL = 365 * 24 * time.Hour
)

// Shortest life that the API server takes for each: a bootstrap token that expires
// before it is used is of no use, and TokenRequest refuses less than 10 minutes
// (k8s.io/kubernetes/pkg/apis/authentication/validation).
const (
	minBootstrapTTL      = time.Minute
	minServiceAccountTTL = 10 * time.Minute
)

func (b *BootstrapToken) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	if _, err := tokenTTL(b.TTL, defaultBootstrapTTL, minBootstrapTTL); err != nil {
		return steps.Change{}, err
	}
	minted := e.Applied["token"]
	if !b.Absent && minted == "" {
		return steps.Change{Action: steps.ActionCreate, Touches: []steps.Touch{{Tokens: true}}}, nil
	}
	have, err := r.BootstrapTokens(ctx, e.Node)
	if err != nil {
		return steps.Change{}, err
	}
	if b.Absent {
		if step, minted := e.Pending[steps.Touch{Tokens: true}]; len(have) == 0 && minted {
			return steps.Change{Action: steps.ActionDelete, Reason: step + " mints one"}, nil
		}
		if len(have) == 0 {
			return steps.Change{}, nil
		}
		return steps.Change{Action: steps.ActionDelete,
			Reason: fmt.Sprintf("%d bootstrap %s of this node still there", len(have),
				plural(len(have), "token is", "tokens are"))}, nil
	}
	id := kube.ParseBootstrapToken(minted).ID
	for _, t := range have {
		if t.ID == id {
			return steps.Change{}, nil
		}
	}
	return steps.Change{Action: steps.ActionCreate, Reason: "the token that was minted is gone"}, nil
}

func (b *BootstrapToken) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	if b.Absent {
		have, err := a.BootstrapTokens(ctx, e.Node)
		if err != nil {
			return steps.Outcome{}, err
		}
		for _, t := range have {
			if err := a.RevokeToken(ctx, t.ID); err != nil {
				return steps.Outcome{}, err
			}
		}
		return steps.Outcome{}, nil
	}
	ttl, err := tokenTTL(b.TTL, defaultBootstrapTTL, minBootstrapTTL)
	if err != nil {
		return steps.Outcome{}, err
	}
	t, err := a.MintToken(ctx, e.Node, ttl)
	if err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{Outputs: map[string]string{"token": t.Text()}, Sensitive: []string{"token"}}, nil
}

// ServiceAccount keeps an account of a node component.
type ServiceAccount struct {
	Namespace   string      `json:"namespace" doc:"namespace of the account"`
	Name        string      `json:"name" doc:"name of the account" id:"true"`
	ClusterRole string      `json:"cluster_role" doc:"ClusterRole to bind"`
	Rules       []kube.Rule `json:"rules,omitempty" doc:"rules of the ClusterRole, where nodejoin makes it"`
	OwnNode     bool        `json:"own_node,omitempty"`
	Node        string      `json:"node,omitempty"`
}

// Account is what the step wants.
func (s *ServiceAccount) Account() kube.ServiceAccount {
	return kube.ServiceAccount{Namespace: s.Namespace, Name: s.Name, ClusterRole: s.ClusterRole, Rules: s.Rules,
		OwnNode: s.OwnNode, Node: s.Node}
}

func (s *ServiceAccount) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	if s.Namespace == "" || s.Name == "" || s.ClusterRole == "" {
		return steps.Change{}, &steps.Error{Code: steps.CodeInvalid, Summary: "incomplete service account",
			Detail: "namespace, name and cluster_role must be set"}
	}
	have, err := r.ServiceAccount(ctx, s.Account())
	if err != nil || len(have.Missing) == 0 {
		return steps.Change{}, err
	}
	return steps.Change{Action: steps.ActionCreate, Reason: "missing: " + strings.Join(have.Missing, "; ")}, nil
}

func (s *ServiceAccount) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	return steps.Outcome{}, a.EnsureServiceAccount(ctx, s.Account())
}

// ServiceAccountToken mints a token (output "token", sensitive) each time it runs; see only_if.
type ServiceAccountToken struct {
	Namespace string `json:"namespace" doc:"namespace of the account"`
	Name      string `json:"name" doc:"name of the account" id:"true"`
	TTL       string `json:"ttl,omitempty" doc:"life of the token, default 8760h; the API server may shorten it"`
	NodeTTL   string `json:"node_ttl,omitempty"`
	Unbound   bool   `json:"unbound,omitempty" doc:"the token outlives the Node; by default it ends with the Node"`
}

func (s *ServiceAccountToken) review(w steps.Written) (out []steps.Remark) {
	if s.Unbound && w.Has("node_ttl") {
		out = append(out, steps.Remark{Arg: "node_ttl",
			Detail: "The token is not bound to the Node: unbound is true. Remove one of the two."})
	}
	return out
}

// ttls are the lives of a token, in general and where it is bound to the Node itself.
func (s *ServiceAccountToken) ttls() (ttl, node time.Duration, err error) {
	if ttl, err = tokenTTL(s.TTL, defaultServiceAccountTTL, minServiceAccountTTL); err == nil {
		node, err = tokenTTL(s.NodeTTL, ttl, minServiceAccountTTL)
	}
	return ttl, node, err
}

func (s *ServiceAccountToken) Check(ctx context.Context, r kube.Reader, e *steps.Env) (steps.Change, error) {
	if _, _, err := s.ttls(); err != nil {
		return steps.Change{}, err
	}
	if e.Applied["token"] != "" {
		return steps.Change{}, nil
	}
	return steps.Change{Action: steps.ActionCreate}, nil
}

func (s *ServiceAccountToken) Apply(ctx context.Context, a kube.API, e *steps.Env, c steps.Change) (
	steps.Outcome, error) {
	ttl, nodeTTL, err := s.ttls()
	if err != nil {
		return steps.Outcome{}, err
	}
	want := kube.TokenRequest{Namespace: s.Namespace, Name: s.Name, TTL: ttl, NodeTTL: nodeTTL}
	if !s.Unbound {
		n, err := a.Node(ctx, e.Node)
		if errors.Is(err, fs.ErrNotExist) {
			return steps.Outcome{}, &steps.Error{Code: steps.CodeFailed, Summary: "no Node that the token could end with",
				Detail: fmt.Sprintf("the token of %s/%s is to end with the Node %s, which is not registered", s.Namespace, s.Name,
					e.Node),
				Remedy: "let a node_registered step come before; or set unbound = true, for a token that outlives the Node"}
		}
		if err != nil {
			return steps.Outcome{}, err
		}
		want.Node, want.UID = n.Name, n.UID
	}
	token, _, err := a.ServiceAccountToken(ctx, want)
	if errors.Is(err, fs.ErrNotExist) {
		return steps.Outcome{}, &steps.Error{Code: steps.CodeFailed, Summary: "no such service account",
			Detail: fmt.Sprintf("ServiceAccount %s/%s does not exist: %v", s.Namespace, s.Name, err),
			Remedy: "make it with a service_account step that comes before"}
	}
	if err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{Outputs: map[string]string{"token": token}, Sensitive: []string{"token"}}, nil
}

func tokenTTL(s string, byDefault, least time.Duration) (time.Duration, error) {
	if s == "" {
		return byDefault, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < least {
		return 0, &steps.Error{Code: steps.CodeInvalid, Summary: "wrong ttl",
			Detail: fmt.Sprintf("%q is not a duration of %s or more, written like 15m or 24h", s, least)}
	}
	return d, nil
}

type object = map[string]any

// ownership is the label of the objects that nodejoin creates, as steps/cluster sets it.
var ownership = object{"app.kubernetes.io/managed-by": "nodejoin"}

func (b *BootstrapToken) rendered(to steps.RenderFor) (steps.Rendering, error) {
	if b.Absent {
		return steps.Rendering{}, nil
	}
	id := steps.ShowRefs(steps.Ref(to.Step + ".token"))
	return steps.Rendering{Name: "bootstrap-token", Objects: []object{
		{"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
			"metadata":   object{"name": "bootstrap-token-" + id, "namespace": "kube-system"},
			"stringData": object{"token-id": id, "token-secret": steps.Hidden}}}}, nil
}

func (s *ServiceAccountToken) rendered(to steps.RenderFor) (steps.Rendering, error) {
	request := object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"metadata": object{"name": s.Name, "namespace": s.Namespace}}
	if !s.Unbound {
		request["spec"] = object{"boundObjectRef": object{"apiVersion": "v1", "kind": "Node", "name": to.Node}}
	}
	return steps.Rendering{Name: "token-" + s.Namespace + "-" + s.Name, Objects: []object{request}}, nil
}

// rendered is the account with its role and binding, as steps/cluster creates them.
func (s *ServiceAccount) rendered(to steps.RenderFor) (steps.Rendering, error) {
	if s.OwnNode && s.Node != "" {
		own := s.Account().OfNode()
		out, err := (&ServiceAccount{Namespace: own.Namespace, Name: own.Name, ClusterRole: own.ClusterRole,
			Rules: own.Rules}).rendered(to)
		shared := *s
		shared.Node = ""
		other, errShared := shared.rendered(to)
		other.Objects = append(other.Objects, out.Objects...)
		return other, errors.Join(err, errShared)
	}
	out := []object{{"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": object{"name": s.Name, "namespace": s.Namespace, "labels": ownership}}}
	if len(s.Rules) > 0 {
		var rules []any
		for _, r := range s.Rules {
			rule := object{"apiGroups": r.APIGroups, "resources": r.Resources, "verbs": r.Verbs}
			if len(r.ResourceNames) > 0 {
				rule["resourceNames"] = r.ResourceNames
			}
			rules = append(rules, rule)
		}
		out = append(out, object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
			"metadata": object{"name": s.ClusterRole, "labels": ownership}, "rules": rules})
	}
	out = append(out, object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": object{"name": strings.Join([]string{"nodejoin", s.Namespace, s.Name, s.ClusterRole}, ":"),
			"labels": ownership},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": s.ClusterRole},
		"subjects": []any{object{"kind": "ServiceAccount", "namespace": s.Namespace, "name": s.Name}}})
	if s.OwnNode {
		for _, m := range kube.OwnNode(s.Namespace, s.Name) {
			out = append(out, m.Object)
		}
	}
	return steps.Rendering{Name: "serviceaccount-" + s.Namespace + "-" + s.Name, Objects: out}, nil
}
