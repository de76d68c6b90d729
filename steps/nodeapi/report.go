package nodeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"nodejoin/steps"
)

const (
	// conditionType is that of the condition which nodejoin-node sets.
	conditionType = "NodejoinHealthy"
	// source is the name of the program, as events have it.
	source = "nodejoin-node"
	// eventNamespace is where events about objects without a namespace are (k8s.io/client-go tools/record/event.go).
	eventNamespace = "default"
)

// Condition is what the service of a node finds, as a condition of the Node.
type Condition struct {
	Healthy bool
	Reason  string // one word in CamelCase
	Message string
	Since   time.Time // when Healthy changed last
}

// condition is core/v1 NodeCondition.
type condition struct {
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	Heartbeat  time.Time `json:"lastHeartbeatTime"`
	Transition time.Time `json:"lastTransitionTime"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
}

// SetCondition sets the condition NodejoinHealthy of a Node, and leaves the others as they are: the API server merges
// conditions by their type.
func (c Client) SetCondition(ctx context.Context, at steps.TokenRenewal, node string, want Condition) error {
	status := "False"
	if want.Healthy {
		status = "True"
	}
	patch := map[string]any{"status": map[string]any{"conditions": []condition{{Type: conditionType, Status: status,
		Heartbeat: seconds(time.Now()), Transition: seconds(want.Since), Reason: want.Reason, Message: want.Message}}}}
	var answer json.RawMessage
	return c.request(ctx, at, http.MethodPatch, "/api/v1/nodes/"+url.PathEscape(node)+"/status", patch, &answer)
}

// seconds is a time as metav1.Time has it.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// Event is what the service of a node has done, or cannot do.
type Event struct {
	Warning bool
	Reason  string // one word in CamelCase
	Message string
	At      time.Time
}

// event is core/v1 Event.
type event struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Involved   involved          `json:"involvedObject"`
	Reason     string            `json:"reason"`
	Message    string            `json:"message"`
	Type       string            `json:"type"`
	Source     map[string]string `json:"source"`
	First      time.Time         `json:"firstTimestamp"`
	Last       time.Time         `json:"lastTimestamp"`
	Count      int               `json:"count"`
}

type involved struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// AddEvent adds an event about a Node. As those of the kubelet it has the name of the Node as its UID (kubernetes
// pkg/kubelet/kubelet.go, nodeRef), by which kubectl describe finds it.
func (c Client) AddEvent(ctx context.Context, at steps.TokenRenewal, node string, e Event) error {
	kind := "Normal"
	if e.Warning {
		kind = "Warning"
	}
	var answer json.RawMessage
	return c.request(ctx, at, http.MethodPost, "/api/v1/namespaces/"+eventNamespace+"/events", event{APIVersion: "v1",
		Kind: "Event", Metadata: map[string]string{"generateName": node + ".", "namespace": eventNamespace},
		Involved: involved{"v1", "Node", node, node}, Reason: e.Reason, Message: e.Message, Type: kind,
		Source: map[string]string{"component": source, "host": node}, First: seconds(e.At), Last: seconds(e.At),
		Count: 1}, &answer)
}
