package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/nodeapi"
)

// TestNodeReports: with the token of its account nodejoin-node sets a condition of its own Node, adds events about it
// and renews the token. It can do nothing else: not to another Node, and no reading.
func TestNodeReports(t *testing.T) {
	p := startControlPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	a, err := Open(ctx, Config{Kubeconfig: p.kubeconfig})
	p.must(err)
	p.nodes(ctx, testNode, "win-2")
	const namespace, account = "kube-system", "nodejoin-node"
	p.run(ctx, a, "account", &kinds.ServiceAccount{Namespace: namespace, Name: account, ClusterRole: "nodejoin:node",
		Rules: []kube.Rule{
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		}, OwnNode: true})
	token := p.run(ctx, a, "token", &kinds.ServiceAccountToken{Namespace: namespace, Name: account})["token"]
	at := steps.TokenRenewal{Server: p.url, CA: certPEM(p.ca.Raw), Token: token}
	var api nodeapi.Client
	refused := func(what string, err error) {
		t.Helper()
		if s, ok := errors.AsType[*nodeapi.StatusError](err); !ok || s.Code != 403 {
			t.Errorf("%s: %v, want 403", what, err)
		}
	}

	since := time.Now().Add(-time.Hour)
	set := func(node string, healthy bool) error {
		return api.SetCondition(ctx, at, node, nodeapi.Condition{Healthy: healthy, Reason: "InOrder", Message: "m",
			Since: since})
	}
	p.until(time.Minute, "the policy and the role are in force", func(context.Context) error {
		if err := set("win-2", true); err == nil || !strings.Contains(err.Error(), "bound to another Node") {
			return fmt.Errorf("another Node: %w", err)
		}
		return set(testNode, true)
	})
	refused("another Node", set("win-2", true))
	p.must(set(testNode, false))
	n, err := p.admin.CoreV1().Nodes().Get(ctx, testNode, metav1.GetOptions{})
	p.must(err)
	var have []corev1.NodeCondition
	for _, c := range n.Status.Conditions {
		if c.Type == "NodejoinHealthy" {
			have = append(have, c)
		}
	}
	if len(have) != 1 || have[0].Status != corev1.ConditionFalse || have[0].LastTransitionTime.Unix() != since.Unix() ||
		time.Since(have[0].LastHeartbeatTime.Time) > time.Minute {
		t.Errorf("the Node has %+v", n.Status.Conditions)
	}

	e := nodeapi.Event{Warning: true, Reason: "NotInOrder", Message: "kubelet: it is stopped", At: time.Now()}
	p.must(api.AddEvent(ctx, at, testNode, e))
	refused("an event about another Node", api.AddEvent(ctx, at, "win-2", e))
	events, err := p.admin.CoreV1().Events("default").List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + testNode + ",reason=NotInOrder"})
	p.must(err)
	if len(events.Items) != 1 || events.Items[0].Source.Component != "nodejoin-node" ||
		events.Items[0].Type != "Warning" {
		t.Errorf("the Node has the events %+v", events.Items)
	}

	at.Token, err = api.Renew(ctx, at)
	p.must(err)
	p.must(set(testNode, true))
	p.nothingElse(ctx, at.Token)
}

// nothingElse: the account of nodejoin-node may not read, and not write what its Node does not need.
func (p *controlPlane) nothingElse(ctx context.Context, token string) {
	p.t.Helper()
	c := p.as(rest.Config{BearerToken: token}).CoreV1()
	_, getNode := c.Nodes().Get(ctx, testNode, metav1.GetOptions{})
	_, pods := c.Pods("").List(ctx, metav1.ListOptions{})
	_, secrets := c.Secrets("").List(ctx, metav1.ListOptions{})
	_, events := c.Events("default").List(ctx, metav1.ListOptions{})
	_, node := c.Nodes().Patch(ctx, testNode, "application/merge-patch+json",
		[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	_, podEvent := c.Events("default").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: testNode}}, metav1.CreateOptions{})
	_, newer := p.as(rest.Config{BearerToken: token}).EventsV1().Events("default").Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "y"}, EventTime: metav1.NowMicro(), ReportingController: "x", Action: "x",
		ReportingInstance: "x", Reason: "x", Type: "Normal",
		Regarding: corev1.ObjectReference{Kind: "Node", Name: "win-2"}}, metav1.CreateOptions{})
	for what, err := range map[string]error{"reading the Node": getNode, "reading pods": pods, "reading secrets": secrets,
		"reading events": events, "cordoning the Node": node, "an event about a pod": podEvent,
		"an event about another Node, in the newer API": newer,
		"deleting the Node":                             c.Nodes().Delete(ctx, testNode, metav1.DeleteOptions{})} {
		if !apierrors.IsForbidden(err) {
			p.t.Errorf("%s: %v, want 403", what, err)
		}
	}
}
