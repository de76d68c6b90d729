package cluster

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"nodejoin/steps/kube"
)

// NodeEvents lists the newest page of events; those of a Node are in the namespace default, as a Node has no
// namespace (client-go tools/record).
func (k *client) NodeEvents(ctx context.Context, node string) ([]kube.NodeEvent, error) {
	list, err := k.core.Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{Limit: listLimit,
		FieldSelector: fields.Set{"involvedObject.kind": "Node", "involvedObject.name": node}.String()})
	if err != nil {
		return nil, k.fail(ctx, "listing the events of "+node, err)
	}
	var out []kube.NodeEvent
	for _, e := range list.Items {
		out = append(out, eventOf(e))
	}
	slices.SortStableFunc(out, func(a, b kube.NodeEvent) int {
		return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Reason, b.Reason))
	})
	return out, nil
}

func eventOf(e corev1.Event) kube.NodeEvent {
	out := kube.NodeEvent{Last: e.LastTimestamp.Time, Count: e.Count, Type: e.Type, Reason: e.Reason, Message: e.Message,
		Source: cmp.Or(e.Source.Component, e.ReportingController)}
	if e.Series != nil {
		out.Last, out.Count = e.Series.LastObservedTime.Time, e.Series.Count
	}
	if out.Last.IsZero() {
		out.Last = e.EventTime.Time
	}
	return out
}
