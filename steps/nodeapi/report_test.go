package nodeapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/stepstest"
)

// asked is what a request holds.
type asked struct {
	Method, Path, Type, Token string
	Body                      map[string]any
}

// TestReport: a condition is a patch of the status of the Node that touches nothing else, and an event is about the
// Node. Both are authorized by the node's own token.
func TestReport(t *testing.T) {
	token := stepstest.TestToken("kube-system", "nodejoin-node", "uid-1", time.Hour)
	var got asked
	at := serve(t, token, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = asked{Method: r.Method, Path: r.URL.Path, Type: r.Header.Get("Content-Type"),
			Token: r.Header.Get("Authorization")}
		if err := json.Unmarshal(b, &got.Body); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "{}")
	})
	since := time.Date(2026, 11, 26, 5, 0, 0, 999, time.UTC)
	began := time.Now().UTC().Truncate(time.Second)
	err := Client{}.SetCondition(t.Context(), at, "win-1", Condition{Reason: "NotInOrder", Message: "b: it is stopped",
		Since: since})
	if err != nil {
		t.Fatal(err)
	}
	sent, _ := got.Body["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)
	beat, err := time.Parse(time.RFC3339, sent["lastHeartbeatTime"].(string))
	if err != nil || beat.Before(began) || beat.After(time.Now()) {
		t.Errorf("the heartbeat is %v, %v", sent["lastHeartbeatTime"], err)
	}
	delete(sent, "lastHeartbeatTime")
	if d := cmp.Diff(asked{http.MethodPatch, "/api/v1/nodes/win-1/status", "application/strategic-merge-patch+json",
		"Bearer " + token, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": "NodejoinHealthy", "status": "False", "reason": "NotInOrder", "message": "b: it is stopped",
			"lastTransitionTime": "2026-11-26T05:00:00Z"}}}}}, got); d != "" {
		t.Error(d)
	}
	if err := (Client{}).AddEvent(t.Context(), at, "win-1", Event{Warning: true, Reason: "NotInOrder", Message: "m",
		At: since}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(asked{http.MethodPost, "/api/v1/namespaces/default/events", "application/json", "Bearer " + token,
		map[string]any{"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "NotInOrder", "message": "m",
			"metadata":       map[string]any{"generateName": "win-1.", "namespace": "default"},
			"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": "win-1", "uid": "win-1"},
			"source":         map[string]any{"component": "nodejoin-node", "host": "win-1"},
			"firstTimestamp": "2026-11-26T05:00:00Z", "lastTimestamp": "2026-11-26T05:00:00Z", "count": 1.0}}, got); d != "" {
		t.Error(d)
	}
}

// TestReportRefused: what the API server refuses has its code.
func TestReportRefused(t *testing.T) {
	at := serve(t, stepstest.TestToken("kube-system", "nodejoin-node", "uid-1", time.Hour),
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	for _, err := range []error{Client{}.SetCondition(t.Context(), at, "win-2", Condition{}),
		Client{}.AddEvent(t.Context(), at, "win-2", Event{})} {
		var status *StatusError
		if !errors.As(err, &status) || status.Code != http.StatusForbidden {
			t.Error(err)
		}
	}
}
