package kube

import (
	"context"
	"time"
)

// Workloads are what is run on a cluster for a while, to see that its nodes work, and
// taken away again: pods and services in a namespace of their own.
type Workloads interface {
	// Namespaces lists those that carry a label, by name.
	Namespaces(ctx context.Context, label string) ([]Namespace, error)
	// MakeNamespace makes it, and waits until pods can be made in it, at most to the
	// end of ctx.
	MakeNamespace(ctx context.Context, n Namespace) error
	// EndNamespace asks for its deletion with all that is in it; absent is no error. It
	// is gone only when Namespaces does not list it any more.
	EndNamespace(ctx context.Context, name string) error
	// EndPods deletes the pods of a namespace without waiting for their kubelets.
	EndPods(ctx context.Context, namespace string) error
	// RunPod makes a pod.
	RunPod(ctx context.Context, p PodSpec) error
	// PodState tells how a pod does.
	PodState(ctx context.Context, namespace, name string) (PodState, error)
	// MakeService makes a service of type NodePort.
	MakeService(ctx context.Context, s ServiceSpec) (Service, error)
}

// Namespace of a cluster.
type Namespace struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	Created     time.Time
	Ending      bool   // its deletion was asked for
	Remains     string // then: what is left of it, as the cluster says
}

// PodSpec is a pod to be made. No account's token is mounted, and it is ended in
// seconds.
type PodSpec struct {
	Namespace, Name string
	Labels          map[string]string
	OS              string            // "windows" or "linux"
	NodeSelector    map[string]string // labels of the Node
	Tolerates       []Taint
	// Once: a container that ends with 0 has done its work, any other is started again.
	// Else every container that ends is.
	Once bool
	// HostNetwork: it is on the network of its node, without an address of its own (Linux).
	HostNetwork bool
	Containers  []Container
}

// Container of a pod.
type Container struct {
	Name, Image   string
	Command, Args []string
	// Port that answers HTTP once it is ready; 0 = it has none, and is ready when it runs.
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
	Containers []ContainerState // in the order of the PodSpec, as far as there are any
}

// ContainerState is a container as observed.
type ContainerState struct {
	Name     string
	Up       bool  // it runs now
	Done     bool  // it has ended with 0
	Failed   bool  // it has ended otherwise, now or before it was started again
	ExitCode int32 // with Failed: of its last end
	Tries    int32 // how often it has ended
}

// ServiceSpec is a service to be made, of type NodePort.
type ServiceSpec struct {
	Namespace, Name string
	Selector        map[string]string
	Port            int32 // of the service and of its pods
}
