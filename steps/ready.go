package steps

import "time"

var httpReadyKind = Kind{Name: "http_ready", Place: OnHost, Timeout: 3 * time.Minute, Doc: "a gate: an address on the machine answers",
	New: func() any { return &HTTPReady{} }}

var pipeReadyKind = Kind{Name: "pipe_ready", Place: OnHost, Timeout: 3 * time.Minute, Doc: "a gate: a named pipe or unix socket answers",
	New: func() any { return &PipeReady{} }}

var fileReadyKind = Kind{Name: "file_ready", Place: OnHost, Timeout: 5 * time.Minute, Doc: "a gate: a program has written a file",
	New: func() any { return &FileReady{} }}

var hnsReadyKind = Kind{Name: "hns_network_ready", Place: OnHost, Timeout: 5 * time.Minute, Doc: "a gate: an HNS network exists and has its management address",
	New: func() any { return &HNSNetworkReady{} }}

// HTTPReady waits until an address answers with the wanted status.
type HTTPReady struct {
	URL     string `json:"url" doc:"http address on the machine"`
	Status  int    `json:"status,omitempty" doc:"wanted status, default 200"`
	Service string `json:"service,omitempty" doc:"the service behind it: the wait ends at once when it stops"`
	Log     string `json:"log,omitempty" doc:"its log file; the tail is shown when the wait fails"`
}

// PipeReady waits until a pipe or socket accepts, and answers a gRPC call if one is named.
type PipeReady struct {
	Address    string `json:"address" doc:"\\\\.\\pipe\\NAME or the path of a unix socket"`
	GRPCMethod string `json:"grpc_method,omitempty" doc:"a unary gRPC method that takes an empty message"`
	Service    string `json:"service,omitempty" doc:"as for http_ready"`
	Log        string `json:"log,omitempty" doc:"as for http_ready"`
}

// FileReady waits until a file exists and holds a text.
type FileReady struct {
	Path     string `json:"path" doc:"absolute path"`
	Contains string `json:"contains,omitempty" doc:"text that it must hold"`
	Service  string `json:"service,omitempty" doc:"as for http_ready"`
	Log      string `json:"log,omitempty" doc:"as for http_ready"`
}

// HNSNetworkReady waits for an HNS network with a management IP. Outputs:
// management_ip. A network of another type or VNI is an error, not a wait.
type HNSNetworkReady struct {
	Name    string `json:"name" doc:"name of the network, for example flannel.4096"`
	Type    string `json:"type,omitempty" doc:"wanted type, for example Overlay"`
	VNI     uint32 `json:"vni,omitempty" doc:"wanted VXLAN network identifier"`
	Service string `json:"service,omitempty" doc:"as for http_ready"`
	Log     string `json:"log,omitempty" doc:"as for http_ready"`
}
