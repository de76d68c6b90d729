package bundle

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"nodejoin/plan"
)

// About is the start of a bug report: what the file has, and what a person must add.
func About(version string, c *plan.Compiled, now time.Time) string {
	var s strings.Builder
	fmt.Fprintf(&s, "nodejoin %s on %s/%s, %s\n", version, runtime.GOOS, runtime.GOARCH, now.Format(time.RFC3339))
	if c.Cluster != nil {
		fmt.Fprintf(&s, "cluster %q: Kubernetes %s, pod network %s\n", c.Cluster.Name, c.Cluster.Version, c.Cluster.PodCIDR)
	}
	for _, n := range c.Nodes {
		fmt.Fprintf(&s, "node %s: %s/%s, connection %s\n", n.Name, n.OS, n.Arch, n.Connection.Type)
	}
	s.WriteString(`
In this file:
  plan/                        the plan: versions, network and runtime
  history/                     the last runs
  NODE/facts.json              operating system, build, addresses
  NODE/check.json              every step, checked again
  NODE/cluster/                version of the API server, the Node, its events and pods
  NODE/network/                addresses, routes, open ports, HNS endpoints
  NODE/services/ files/ hns/ firewall/ env/   as they are on the machine
  NODE/runtime/images.json     images of the container runtime
  NODE/events/                 event log of Windows: the service control manager, the node's services
  NODE/logs/                   the ends of the logs
  missing.txt                  what could not be collected, and why

Please add: what you did, what you expected, what happened instead, since when, and what
had changed before. To report a problem of Windows nodes to Kubernetes itself, label the
issue with the comment "/sig windows".
`)
	return s.String()
}
