package kube

import "time"

// Pod holds the fields of a pod that a drain uses.
type Pod struct {
	Namespace, Name, UID string
	// Controller is the kind of the controller that would recreate it, "ReplicaSet"; "" = none.
	Controller string
	Owner      string // name of the controller
	Mirror     bool   // the kubelet's mirror of a static pod; it exists as long as its file
	EmptyDir   bool   // it has a volume whose data would be lost
	Finished   bool   // Succeeded or Failed
	Ending     bool   // it is being deleted
	// Waiting is why a container of it does not run, "ImagePullBackOff: Back-off pulling image"; "" = all run,
	// or the pod is finished.
	Waiting string
	Created time.Time
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// DaemonSet is one that wants a pod on a node.
type DaemonSet struct {
	Namespace, Name string
	NamesOS         bool // its pods say for which operating system they are
	Created         time.Time
}

func (d DaemonSet) String() string { return d.Namespace + "/" + d.Name }

// Service holds the fields of a service that nodejoin uses.
type Service struct {
	Namespace, Name string
	ClusterIP       string // "" = none: headless, or of type ExternalName
	NodePorts       []int32
}

func (s Service) String() string { return s.Namespace + "/" + s.Name }

// Taint of a Node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule, NoExecute
}
