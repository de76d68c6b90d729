package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// TestNodeFollows: with the account of examples/following.md a node does what following a plan asks of the API server.
// It changes no other Node, and reads no Secrets.
func TestNodeFollows(t *testing.T) {
	p := startControlPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	admin, err := Open(ctx, Config{Kubeconfig: p.kubeconfig})
	p.must(err)
	defer admin.Close()
	p.nodes(ctx, testNode, "win-2")
	const namespace, account = "kube-system", "nodejoin-follow"
	rule := func(group, resource string, verbs ...string) kube.Rule {
		return kube.Rule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	p.run(ctx, admin, "account", &kinds.ServiceAccount{Namespace: namespace, Name: account,
		ClusterRole: "nodejoin:follow", OwnNode: true, Rules: []kube.Rule{
			rule("", "nodes", "get", "list", "watch", "patch"), rule("", "nodes/status", "patch"),
			rule("", "serviceaccounts", "get"), rule("", "pods", "get", "list"),
			rule("coordination.k8s.io", "leases", "get", "list", "create", "update", "delete"),
			rule("certificates.k8s.io", "certificatesigningrequests", "get", "list"),
			rule("rbac.authorization.k8s.io", "clusterroles", "get"),
			rule("rbac.authorization.k8s.io", "clusterrolebindings", "get")}})
	token := p.run(ctx, admin, "token", &kinds.ServiceAccountToken{Namespace: namespace, Name: account})["token"]
	a, err := Open(ctx, Config{Kubeconfig: p.writeKubeconfig("follow", &clientcmdapi.AuthInfo{Token: token})})
	p.must(err)
	defer a.Close()
	condition := kube.Condition{Type: "NodejoinFollowsPlan", Status: "False", Reason: "Refused", Message: "m",
		Since: time.Now().Add(-time.Hour).Truncate(time.Second)}
	p.until(time.Minute, "the policy and the role are in force", func(ctx context.Context) error {
		if err := a.SetCondition(ctx, "win-2", condition); !errors.Is(err, kube.ErrForbidden) {
			return fmt.Errorf("another Node: %w", err)
		}
		return a.SetCondition(ctx, testNode, condition)
	})
	p.must(a.SetAnnotations(ctx, testNode, map[string]string{"nodejoin.dev/follows": "{}"}, nil))
	n, err := a.Node(ctx, testNode)
	p.must(err)
	if len(n.Conditions) != 1 || n.Conditions[0].Reason != "Refused" || !n.Conditions[0].Since.Equal(condition.Since) ||
		n.Annotations["nodejoin.dev/follows"] != "{}" {
		t.Errorf("the Node has %+v, %v", n.Conditions, n.Annotations)
	}
	lease := kube.Lease{Name: "nodejoin-prod.slot-0", Holder: testNode, Note: testNode, Duration: time.Minute,
		Renewed: time.Now()}
	for range 2 { // taken and renewed
		_, err = a.TakeLease(ctx, lease, "")
		p.must(err)
	}
	other := lease
	other.Holder = "win-2"
	if before, err := a.TakeLease(ctx, other, ""); !errors.Is(err, kube.ErrHeld) || before.Holder != testNode {
		t.Errorf("%+v, %v", before, err)
	}
	list, err := a.Leases(ctx, "nodejoin-prod.")
	if err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	p.must(a.ReleaseLease(ctx, lease.Name, testNode))
	p.foreignLeases(ctx, token)
	for what, err := range map[string]error{
		"another Node's annotation": a.SetAnnotations(ctx, "win-2", map[string]string{"nodejoin.dev/follows": "{}"}, nil),
		"bootstrap tokens": func() error {
			_, err := a.BootstrapTokens(ctx, testNode)
			return err
		}(),
	} {
		if !errors.Is(err, kube.ErrForbidden) {
			t.Errorf("%s: %v, want forbidden", what, err)
		}
	}
}

// foreignLeases: the account with this token changes no Leases but those of nodejoin: not the leader of a controller,
// not the heartbeat of a Node.
func (p *controlPlane) foreignLeases(ctx context.Context, token string) {
	p.t.Helper()
	const why = "the account changes only the Leases of nodejoin"
	own := p.as(rest.Config{BearerToken: token})
	for _, at := range [][2]string{{"kube-system", "kube-scheduler"}, {"kube-node-lease", "win-2"},
		{"default", "nodejoin-x"}} {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: at[1]}}
		_, err := own.CoordinationV1().Leases(at[0]).Create(ctx, l, metav1.CreateOptions{})
		p.must(wantForbidden(err, why))
		have, err := p.admin.CoordinationV1().Leases(at[0]).Create(ctx, l, metav1.CreateOptions{})
		p.must(err)
		_, err = own.CoordinationV1().Leases(at[0]).Update(ctx, have, metav1.UpdateOptions{})
		p.must(wantForbidden(err, why))
		p.must(wantForbidden(own.CoordinationV1().Leases(at[0]).Delete(ctx, at[1], metav1.DeleteOptions{}), why))
	}
}
