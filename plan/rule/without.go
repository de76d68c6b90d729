package rule

import (
	"slices"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
)

// withoutCluster reports arguments that only a node of a cluster can have.
func withoutCluster(p *block.Plan, s *eval.Section) {
	if len(p.Written["cluster"]) > 0 {
		return
	}
	const why = "The argument %q is for the nodes of a cluster, and the plan has no cluster block, so it has no " +
		"effect. Remove it, or add a cluster block."
	for _, name := range []string{"labels", "max_pods", "mirror", "waive"} {
		if s.Has(name) {
			s.FailAt(s.Attrs[name].NameRange, "argument without effect", why, name)
		}
	}
	for _, k := range block.Components {
		for _, b := range s.Blocks.OfType(k.Block) {
			s.FailAt(b.DefRange, "block without effect",
				"A %s block is for the nodes of a cluster, and the plan has no cluster block. Remove it, or add a cluster block.",
				k.Block)
		}
	}
	for _, b := range s.Blocks.OfType("taint") {
		s.FailAt(b.DefRange, "block without effect",
			"A taint is for the nodes of a cluster, and the plan has no cluster block. Remove it, or add a cluster block.")
	}
}

// sshWithoutCluster reports setup_ssh on a machine that gets only the steps of the plan.
func sshWithoutCluster(p *block.Plan, m *block.Machine) {
	if w := m.Connection.WinRM; w != nil && w.SetupSSH != nil && len(p.Written["cluster"]) == 0 {
		m.Conn.Fail("setup_ssh", "argument without effect", "It is for the nodes of a cluster, and the plan has no cluster "+
			"block, so it has no effect. Remove it and ssh_public_key, and write the step \"ssh_server\" instead.")
	}
}

// withoutProxy reports settings of a kube-proxy that the node does not get.
func withoutProxy(p *block.Plan, s *eval.Section) {
	k := p.Cluster
	if k == nil || k.Base.Network.Kind != "none" || k.Base.Network.HNSNetwork != "" {
		return
	}
	for _, b := range s.Blocks.OfType("kube_proxy") {
		s.FailAt(b.DefRange, "block without effect", "The network block says that the cluster brings kube-proxy itself, "+
			"so nodejoin installs none. Remove this block, or give hns_network in the network block.")
	}
}

// blocksOfACluster reports blocks that are for the nodes of a cluster, where the plan has none.
func blocksOfACluster(p *block.Plan) {
	if len(p.Written["cluster"]) > 0 {
		return
	}
	for _, row := range []struct{ kind, text string }{
		{"mirror", "A mirror holds what the nodes of a cluster install, and the plan has no cluster block. Add one, or " +
			"remove this block."},
		{"verify", "A verify block is about what the nodes of a cluster install, and the plan has no cluster block. " +
			"Add one, or remove this block."},
		{"artifact", "An artifact block is for the nodes of a cluster, and the plan has no cluster block. Steps name " +
			"their source themselves."},
		{"runtime", "A runtime block says what the nodes of a cluster run, and the plan has no cluster block. Add one, " +
			"or remove this block."},
		{"network", "A network block says what the nodes of a cluster run, and the plan has no cluster block. Add one, " +
			"or remove this block."},
		{"rollout",
			"A rollout counts Nodes of a cluster, and the plan has no cluster block. Add one, or remove this block."},
	} {
		for _, b := range p.Written[row.kind] {
			if row.kind == "artifact" && !slices.Contains(compat.ArtifactNames(), b.Labels[0]) {
				continue // reported
			}
			p.Fail(b.DefRange, "block without effect", "%s", row.text)
		}
	}
}
