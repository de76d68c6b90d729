package compat

import (
	"fmt"
	"strings"
)

// Handlers of a RuntimeClass on Windows: a name in the runtime's configuration.
const (
	// containerd's default on Windows (defaults/defaults_windows.go, internal/cri/config/config_windows.go)
	HandlerProcess    = "runhcs-wcow-process"
	HandlerHypervisor = "runhcs-wcow-hypervisor" // containerd configures this one too
	HandlerDocker     = "docker"                 // dockershim has no other
)

// apiRow says that the API server serves a group version in span.
type apiRow struct {
	apiVersion string
	span       span
	source     string
}

// runtimeClassAPIs are in rising order of preference.
var runtimeClassAPIs = []apiRow{
	{"node.k8s.io/v1alpha1", span{until: line{1, 25}},
		"kubernetes deprecation guide: node.k8s.io/v1alpha1 went with v1beta1 (not verified)"},
	{"node.k8s.io/v1beta1", span{until: line{1, 25}}, "k8s.io/api v0.36.3 node/v1beta1 APILifecycleRemoved: 1.25"},
	{"node.k8s.io/v1", span{since: line{1, 20}}, "k8s.io/api v0.36.3 node/v1 APILifecycleIntroduced: 1.20"},
}

// RuntimeClassAPI returns the API version of RuntimeClass that the API server of a version serves and that
// lasts longest.
func RuntimeClassAPI(kubernetes string) (string, error) {
	l, _, ok := minorLine("Kubernetes", kubernetes, since1_14, kubernetesNewest)
	if !ok {
		return "", fmt.Errorf("%q is not a Kubernetes version", kubernetes)
	}
	best := ""
	for _, row := range runtimeClassAPIs {
		if row.span.holds(l) {
			best = row.apiVersion
		}
	}
	return best, nil
}

// CheckRuntimeClass reports whether a RuntimeClass works: its API version with the API server, its handler
// with the runtime of the nodes ("containerd", "docker" or "mcr"). An empty apiVersion is not checked. A
// containerd handler other than the defaults is OK: it may be configured, and Instead says how it must be
// named.
func CheckRuntimeClass(apiVersion, handler, runtime, kubernetes string) Verdict {
	v := Verdict{Name: "RuntimeClass " + apiVersion}
	l, note, ok := minorLine("Kubernetes", kubernetes, since1_14, kubernetesNewest)
	if !ok {
		return noVersion(v.Name, kubernetes)
	}
	v.Assumed = note
	best := ""
	for _, row := range runtimeClassAPIs {
		if row.span.holds(l) {
			best = row.apiVersion
		}
	}
	found := apiVersion == ""
	for _, row := range runtimeClassAPIs {
		if row.apiVersion != apiVersion {
			continue
		}
		found = true
		v.Source, v.Since, v.Until = row.source, row.span.since.text(), row.span.until.text()
		switch {
		case l.less(row.span.since):
			v.Status, v.Why, v.Instead = NotYet, fmt.Sprintf("the API server serves %s since %s", apiVersion, row.span.since),
				best
			return v
		case !row.span.holds(l):
			v.Status, v.Why, v.Instead = Removed, fmt.Sprintf("the API server no longer serves %s since %s", apiVersion,
				row.span.until), best
			return v
		}
	}
	if !found {
		v.Status, v.Why, v.Instead = Unknown, "RuntimeClass has no such API version", best
		return v
	}
	switch {
	case runtime == "containerd" && handler == HandlerDocker:
		v.Status, v.Instead = Refused, HandlerProcess
		v.Why = "containerd has no handler docker; pods of the class would not start"
		v.Source = "containerd defaults on Windows; the handler is from guides for dockershim"
	case runtime == "docker" && handler != HandlerDocker:
		v.Status, v.Instead = Refused, HandlerDocker
		v.Why = fmt.Sprintf("dockershim has the handler docker only, not %q", handler)
		v.Source = "Kubernetes 1.20 documentation, RuntimeClass for Windows"
	case runtime == "mcr" && handler == HandlerDocker && !l.less(line{1, 24}):
		v.Status, v.Why = Deprecated, "whether cri-dockerd accepts the handler docker depends on its version"
		v.Source = "Mirantis/cri-dockerd (not verified)"
	case strings.TrimSpace(handler) == "":
		v.Status, v.Why, v.Instead = Refused, "a RuntimeClass needs a handler", HandlerProcess
	case runtime == "containerd" && handler != HandlerProcess && handler != HandlerHypervisor:
		v.Instead = fmt.Sprintf("a runtime named %q in containerd's configuration, or %s", handler, HandlerProcess)
	case apiVersion != "" && apiVersion != best:
		v.Status, v.Why, v.Instead = Deprecated, apiVersion+" is superseded", best
	}
	return v
}

// labelRow is a label key and its successor.
type labelRow struct {
	old, new string
	since    line // the successor exists since
	dead     line // the old one is no longer set since then; zero while it still is
	source   string
}

const wellKnownLabels = "k8s.io/api core/v1/well_known_labels.go; k8s.io/kubelet pkg/apis/well_known_labels.go"

var labelRows = []labelRow{
	{"beta.kubernetes.io/os", "kubernetes.io/os", line{1, 14}, line{},
		wellKnownLabels + ": GA in 1.14; kubernetes v1.36.3 pkg/kubelet/kubelet_node_status.go: kubelet sets both still"},
	{"beta.kubernetes.io/arch", "kubernetes.io/arch", line{1, 14}, line{},
		wellKnownLabels + ": GA in 1.14; kubernetes v1.36.3 pkg/kubelet/kubelet_node_status.go: kubelet sets both still"},
	{"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", line{1, 17}, line{}, wellKnownLabels},
	{"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone", line{1, 17}, line{}, wellKnownLabels},
	{"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region", line{1, 17}, line{}, wellKnownLabels},
	{"node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane", line{1, 20}, line{1, 24},
		"CHANGELOG-1.20 and CHANGELOG-1.24 (kubeadm)"},
}

// labelsSince are labels that the kubelet sets by itself since a version.
var labelsSince = map[string]line{"node.kubernetes.io/windows-build": {1, 17}}

// CheckLabel reports whether a label key, in a selector or a toleration's nodeSelector, is right for a
// Kubernetes version: OK, Deprecated or Removed with the successor in Instead, NotYet. Keys that are not in
// the tables are OK.
func CheckLabel(key, kubernetes string) Verdict {
	v := Verdict{Name: key}
	l, note, ok := minorLine("Kubernetes", kubernetes, since1_14, kubernetesNewest)
	if !ok {
		return noVersion(key, kubernetes)
	}
	for _, row := range labelRows {
		switch {
		case key == row.new && l.less(row.since):
			v.Status, v.Since, v.Instead, v.Source = NotYet, row.since.text(), row.old, row.source
			v.Why, v.Assumed = fmt.Sprintf("nodes have the label since %s", row.since), note
			return v
		case key == row.old && !l.less(row.since):
			v.Status, v.Instead, v.Source, v.Assumed = Deprecated, row.new, row.source, note
			v.Why = fmt.Sprintf("it is replaced by %s since %s", row.new, row.since)
			if row.dead != (line{}) && !l.less(row.dead) {
				v.Status, v.Until = Removed, row.dead.text()
				v.Why = fmt.Sprintf("nodes no longer have it since %s", row.dead)
			}
			return v
		}
	}
	if since, ok := labelsSince[key]; ok && l.less(since) {
		v.Status, v.Since, v.Assumed = NotYet, since.text(), note
		v.Why, v.Source = fmt.Sprintf("the kubelet sets it since %s; set it by hand", since),
			"Kubernetes documentation, scheduling on Windows"
	}
	return v
}
