package check

import (
	"strings"

	"nodejoin/plan/compat"
)

// service checks what a Service asks of the kube-proxy of Windows nodes: every node forwards every Service,
// wherever its pods run.
func (k *checker) service() {
	spec := k.object.at("spec")
	if affinity := spec.get("sessionAffinity"); affinity.str() == "ClientIP" {
		k.needs("service-affinity", affinity, compat.SessionAffinity)
		if timeout := spec.at("sessionAffinityConfig", "clientIP", "timeoutSeconds"); timeout.there() {
			k.needs("service-affinity-timeout", timeout, compat.AffinityTimeout)
		}
	}
	if preserve := k.object.at("metadata", "annotations", "preserve-destination"); preserve.str() == "true" {
		k.needs("service-preserve-destination", preserve, compat.PreserveDestination)
	}
}

// needs finds the Windows nodes of the plan whose build lacks a feature.
func (k *checker) needs(id string, at value, feature compat.WindowsFeature) {
	var nodes []string
	why := ""
	for _, n := range k.cluster.Nodes {
		if n.Build == "" {
			continue
		}
		if v := compat.CheckWindowsFeature(feature, n.Build); !v.Accepted() {
			nodes, why = append(nodes, n.Name+" ("+n.Build+")"), v.Why
		}
	}
	if len(nodes) > 0 {
		k.find(id, at, "%s: %s", strings.Join(nodes, ", "), why)
	}
}
