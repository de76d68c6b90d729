package cluster

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// client implements kube.API; safe for concurrent use.
type client struct {
	server  string
	ca      authority
	manager string

	core  coreClient
	rbac  rbacClient
	certs certsClient
	coord leasesClient
	any   rest.Interface // objects of any kind, by path
	kinds served
	nodes nodeList
	held  heldLeases
	asks  asks
	// config is that of connections that are upgraded to streams.
	config *rest.Config
}

// served are the kinds of objects that the API server has, by group version; requested once for each.
type served struct {
	mu    sync.Mutex
	lists map[string]metav1.APIResourceList
}

// ownership marks the objects that nodejoin creates and may change.
var ownership = map[string]string{"app.kubernetes.io/managed-by": "nodejoin"}
