package cluster

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// TestThroughAPIServer: logs and metrics come from the kubelet, whatever their form; a refusal is ErrForbidden.
func TestThroughAPIServer(t *testing.T) {
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/namespaces/n/pods/web/log":
			_, _ = w.Write([]byte("served\n"))
		case "/api/v1/nodes/win-1/proxy/metrics/resource":
			_, _ = w.Write([]byte("node_cpu_usage_seconds_total 1\n"))
		case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
			reply(w, map[string]any{"status": map[string]any{"allowed": false, "reason": "no right"}})
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
				Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "no right"})
		}
	})
	if log, err := a.PodLog(t.Context(), "n", "web"); err != nil || log != "served\n" {
		t.Errorf("log %q, %v", log, err)
	}
	if text, err := a.NodeMetrics(t.Context(), "win-1"); err != nil || !strings.HasPrefix(text, "node_cpu") {
		t.Errorf("metrics %q, %v", text, err)
	}
	if _, err := a.NodeMetrics(t.Context(), "win-2"); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("metrics without the right: %v", err)
	}
	if _, err := a.Exec(t.Context(), "n", "web", []string{"echo"}); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("a command without the right: %v", err)
	}
	if err := a.Forward(t.Context(), "n", "web", 80); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("a forwarded port without the right: %v", err)
	}
}

// TestDaemonSets: the list has more than one page, and only DaemonSets that select the node.
func TestDaemonSets(t *testing.T) {
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/apps/v1/daemonsets" {
			t.Errorf("asked %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		page := `{"kind": "DaemonSetList", "apiVersion": "apps/v1", "metadata": {"continue": "more"}, "items": [
			{"metadata": {"namespace": "b", "name": "everywhere", "creationTimestamp": "2026-11-01T00:00:00Z"},
				"spec": {"template": {"spec": {"containers": []}}}}]}`
		if r.URL.Query().Get("continue") == "more" {
			page = `{"kind": "DaemonSetList", "apiVersion": "apps/v1", "metadata": {}, "items": [
				{"metadata": {"namespace": "a", "name": "linux"},
					"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}},
				{"metadata": {"namespace": "a", "name": "windows"},
					"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}}}}]}`
		}
		_, _ = w.Write([]byte(page))
	})
	node := kube.Node{Name: "win-1", Labels: map[string]string{"kubernetes.io/os": "windows"}}
	have, err := a.DaemonSets(t.Context(), node)
	if err != nil || len(have) != 2 || have[0].String() != "a/windows" || !have[0].NamesOS ||
		have[1].String() != "b/everywhere" || have[1].NamesOS ||
		!have[1].Created.Equal(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", have, err)
	}
}
