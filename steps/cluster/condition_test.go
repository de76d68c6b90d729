package cluster

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// TestCondition: a condition is a patch of the status that touches nothing else, and is read as it was set. Conditions
// of others are not read.
func TestCondition(t *testing.T) {
	since := time.Date(2026, 11, 26, 7, 0, 0, 0, time.UTC)
	var have corev1.Node
	k, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reply(w, have)
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodPatch || r.URL.Path != "/api/v1/nodes/win-1/status" ||
			r.Header.Get("Content-Type") != "application/strategic-merge-patch+json" {
			t.Errorf("%s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		var sent corev1.Node
		if err := json.Unmarshal(b, &sent); err != nil {
			t.Error(err)
		}
		if time.Since(sent.Status.Conditions[0].LastHeartbeatTime.Time) > time.Minute {
			t.Errorf("the heartbeat is %v", sent.Status.Conditions[0].LastHeartbeatTime)
		}
		have = corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "win-1"}, Status: corev1.NodeStatus{Conditions: append(
				[]corev1.NodeCondition{{Type: "MemoryPressure", Status: "False"}}, sent.Status.Conditions...)}}
		reply(w, have)
	})
	want := kube.Condition{Type: "NodejoinX", Status: "False", Reason: "Refused", Message: "m", Since: since}
	if err := k.SetCondition(t.Context(), "win-1", want); err != nil {
		t.Fatal(err)
	}
	n, err := k.Node(t.Context(), "win-1")
	if err != nil {
		t.Fatal(err)
	}
	n.Conditions[0].Since = n.Conditions[0].Since.UTC()
	if d := cmp.Diff([]kube.Condition{want}, n.Conditions); d != "" {
		t.Error(d)
	}
}
