package cluster

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

func TestNodeEvents(t *testing.T) {
	at := time.Unix(1e9, 0)
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query().Get("fieldSelector"); r.URL.Path != "/api/v1/namespaces/default/events" ||
			q != "involvedObject.kind=Node,involvedObject.name=win-1" {
			t.Errorf("asked for %s", r.URL)
		}
		reply(w, corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}, Items: []corev1.Event{
			{LastTimestamp: metav1.NewTime(at.Add(time.Hour)), Count: 3, Type: "Warning", Reason: "Late", Message: "m",
				Source: corev1.EventSource{Component: "kubelet"}},
			{EventTime: metav1.NewMicroTime(at), Type: "Normal", Reason: "First", ReportingController: "node-controller"},
		}})
	})
	have, err := a.NodeEvents(t.Context(), "win-1")
	want := []kube.NodeEvent{{Last: at, Type: "Normal", Reason: "First", Source: "node-controller"},
		{Last: at.Add(time.Hour), Count: 3, Type: "Warning", Reason: "Late", Message: "m", Source: "kubelet"}}
	if diff := cmp.Diff(want, have); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
