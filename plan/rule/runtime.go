package rule

import (
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
)

// runtimeFitsKubernetes reports a runtime that the cluster's version of Kubernetes cannot use.
func runtimeFitsKubernetes(p *block.Plan) {
	if p.Cluster == nil || p.Cluster.RuntimeBlock == nil || p.Cluster.Version == "" {
		return
	}
	r, kubernetes := p.Cluster.RuntimeBlock, p.Cluster.Version
	if r.Kind == "containerd" {
		containerdFits(p, r, kubernetes)
		return
	}
	at := r.Block.LabelRanges[0]
	switch v := compat.CheckDocker(kubernetes); v.Status {
	case compat.Removed:
		r.FailAt(at, "runtime not supported",
			"Kubernetes %s cannot use %s: %s, and cri-dockerd, which would connect them, is not supported%s", kubernetes,
			r.Kind, v.Why, block.Instead(v))
	case compat.Deprecated:
		p.Warn(at, "deprecated runtime", "%s%s", v.Why, block.Instead(v))
	}
}

func containerdFits(p *block.Plan, r *block.Runtime, kubernetes string) {
	have, err := compat.LookupContainerd(r.Version)
	if r.Version == "" || err != nil || !have.Supported {
		return // reported
	}
	if v := compat.CheckContainerd(kubernetes, r.Version); !v.Accepted() {
		r.Fail("version", "runtime not supported", "Kubernetes %s cannot use containerd %s: %s%s", kubernetes, r.Version,
			v.Why, block.Instead(v))
	} else if ok, known, want := compat.Tested(kubernetes, r.Version); known && !ok {
		p.Warn(r.At("version"), "untested versions",
			"containerd %s is not tested with Kubernetes %s by its maintainers. These are, with their later patches: %s.",
			r.Version, kubernetes, strings.Join(want, ", "))
	}
}

// clusterHasBlocks reports what a cluster needs besides its own block.
func clusterHasBlocks(p *block.Plan) {
	if p.Cluster == nil {
		return
	}
	for _, need := range []struct{ kind, text string }{
		{"runtime", "Nodes of a cluster need a container runtime. Add: runtime \"containerd\" { version = \"2.2.1\" }."},
		{"network", "Nodes of a cluster need a pod network. Add: network \"flannel\" { version = \"0.28.9\" }."},
	} {
		if len(p.Written[need.kind]) == 0 && !p.Lost[need.kind] {
			p.Fail(p.Cluster.Block.DefRange, "missing block", "%s", need.text)
		}
	}
}
