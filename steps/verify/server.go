package verify

import "nodejoin/steps/kube"

// server is a web server on one node, with its service.
type server struct {
	node     kube.Node
	os       string
	image    string
	name     string // of pod, service and label
	target   bool   // the node is one of the plan
	tolerate []kube.Taint
	service  kube.Service
	unserved string        // why it has no service
	state    kube.PodState // once up
	up       bool          // it runs, and its probe may be tried
	why      string        // it is not up
	status   Status        // with why: Fail, or NotPossible where that is nobody's fault
}
