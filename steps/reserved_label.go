package steps

import "strings"

// kubeletLabels are the prefixes and names below kubernetes.io that a kubelet may set on its own Node
// (kubernetes.io, "Admission Control in Kubernetes", NodeRestriction).
var kubeletLabels = []string{"kubelet.kubernetes.io/", "node.kubernetes.io/", "kubernetes.io/hostname",
	"kubernetes.io/arch",
	"kubernetes.io/os", "beta.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/region",
	"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.kubernetes.io/zone"}

func reservedLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	ours := domain == "kubernetes.io" || domain == "k8s.io" || strings.HasSuffix(domain, ".kubernetes.io") ||
		strings.HasSuffix(domain, ".k8s.io")
	for _, may := range kubeletLabels {
		if key == may || strings.HasSuffix(may, "/") && strings.HasPrefix(key, may) {
			return false
		}
	}
	return ours
}
