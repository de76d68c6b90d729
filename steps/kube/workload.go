package kube

import (
	"context"
	"time"
)

// Workloads run pods and services on a cluster for a while to verify its nodes, in a namespace that is
// deleted afterwards.
type Workloads interface {
	// Namespaces lists those with a label, by name.
	Namespaces(ctx context.Context, label string) ([]Namespace, error)
	// MakeNamespace creates it, and waits until pods can be created in it, at most until ctx ends.
	MakeNamespace(ctx context.Context, n Namespace) error
	// EndNamespace requests its deletion with everything in it; it is not an error if it is absent. It is gone
	// only when Namespaces no longer lists it.
	EndNamespace(ctx context.Context, name string) error
	// EndPods deletes the pods of a namespace without waiting for their kubelets.
	EndPods(ctx context.Context, namespace string) error
	// RunPod creates a pod.
	RunPod(ctx context.Context, p PodSpec) error
	// PodState returns the state of a pod.
	PodState(ctx context.Context, namespace, name string) (PodState, error)
	// PodLog returns the log of a pod with one container.
	PodLog(ctx context.Context, namespace, name string) (string, error)
	// Exec runs a command in a pod with one container and returns what it prints. An exit code other than 0 is an
	// error.
	Exec(ctx context.Context, namespace, name string, command []string) (string, error)
	// Forward forwards a port of this computer to one of a pod, and asks for / there by HTTP; any answer counts.
	Forward(ctx context.Context, namespace, name string, port int32) error
	// NodeMetrics returns the usage of a node and its pods as its kubelet reports it, in Prometheus' format.
	NodeMetrics(ctx context.Context, node string) (string, error)
	// MakeService creates a service of type NodePort, or a headless one.
	MakeService(ctx context.Context, s ServiceSpec) (Service, error)
}

// Namespace of a cluster.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	Created     time.Time
	Ending      bool   // it is being deleted
	Remains     string // then: what is left of it, as the cluster reports
}

// PodSpec is a pod to create. No account's token is mounted, and it terminates within seconds.
type PodSpec struct {
	Namespace, Name string
	Labels          map[string]string
	OS              string            // "windows" or "linux"
	NodeSelector    map[string]string // labels of the Node
	Tolerates       []Taint
	// Once: a container that exits with 0 is done, any other is restarted. Otherwise every container that exits
	// is restarted.
	Once bool
	// Subdomain is the headless service that gives the pod the name NAME.SUBDOMAIN.NAMESPACE.svc; "" = none.
	Subdomain string
	// HostNetwork: it uses the network of its node, without an address of its own (Linux).
	HostNetwork bool
	Containers  []Container
}

// Container of a pod.
type Container struct {
	Name, Image   string
	Command, Args []string
	// Port that answers HTTP once the container is ready; 0 = none: it is ready when it runs.
	Port int32
}

// PodState is a pod as observed.
type PodState struct {
	Node, IP string // empty until known
	Running  bool   // all its containers have been started
	Ready    bool
	// Waiting is why a container does not run: "ImagePullBackOff: Back-off pulling
	// image", "no Node takes it: ...".
	Waiting    string
	Containers []ContainerState // in the order of the PodSpec, as far as they exist
}

// ContainerState is a container as observed.
type ContainerState struct {
	Name     string
	Up       bool  // it is running
	Done     bool  // it exited with 0
	Failed   bool  // it exited with another code, now or before a restart
	ExitCode int32 // with Failed: of its last exit
	Tries    int32 // how often it has exited
}

// ServiceSpec is a service of type NodePort to create, or a headless one.
type ServiceSpec struct {
	Namespace, Name string
	Selector        map[string]string
	Port            int32 // of the service and of its pods
	Headless        bool
}
