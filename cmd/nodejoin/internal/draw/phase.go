package draw

import (
	"slices"
	"strings"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// Phases of a node's steps, in their order.
var phases = []string{"prepare", "runtime", "join", "network", "verify"}

// phasePrefixes are how the ids begin of the steps that a node block gives, by phase.
var phasePrefixes = [][]string{1: {"containerd"}, 2: {"ca", "kubelet", "bootstrap", "serving"},
	3: {"net_conf", "flannel", "subnet", "cni_", "source_vip", "kube_proxy", "calico", "sdn"}, 4: {"node_ready"}}

// phaseOf is the phase that a step belongs to by itself.
func phaseOf(s steps.Spec) int {
	k := kinds.Of(s)
	switch {
	case k.Ends:
		return 4
	case k.Installs != nil || strings.HasSuffix(s.ID, "_dir"):
		return 0
	}
	for i, list := range phasePrefixes {
		if slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(s.ID, p) }) {
			return i
		}
	}
	if k.Place == steps.OnCluster && !k.Finds && !k.Waits {
		return 2
	}
	return 0
}

// phasesOf are the phases of a node's steps; none is before the phase of a step that comes before it.
func phasesOf(list []steps.Spec, after [][]int) []int {
	out := make([]int, len(list))
	for i, s := range list {
		out[i] = phaseOf(s)
		for _, d := range after[i] {
			out[i] = max(out[i], out[d])
		}
	}
	return out
}

// critical is the path of steps that takes longest, and how long. It is empty where no time is known.
func critical(n plan.Node, after [][]int, took func(host, step string) time.Duration) (
	path []int, whole time.Duration,
) {
	if took == nil {
		return nil, 0
	}
	until := make([]time.Duration, len(n.Steps))
	from := make([]int, len(n.Steps))
	last := -1
	for i, s := range n.Steps {
		from[i] = -1
		for _, d := range after[i] {
			if from[i] < 0 || until[d] > until[from[i]] {
				from[i] = d
			}
		}
		until[i] = max(took(n.Name, s.ID), 0)
		if from[i] >= 0 {
			until[i] += until[from[i]]
		}
		if last < 0 || until[i] > until[last] {
			last = i
		}
	}
	if last < 0 || until[last] == 0 {
		return nil, 0
	}
	whole = until[last]
	for i := last; i >= 0; i = from[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path, whole
}
