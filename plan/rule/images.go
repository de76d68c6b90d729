package rule

import "nodejoin/plan/block"

// imagesOfNode reports an images block on a node that has no container runtime of nodejoin.
func imagesOfNode(p *block.Plan, m *block.Machine) {
	b, ok := m.Said["images"]
	switch {
	case !ok || reported(p, b.At):
	case len(p.Written["cluster"]) == 0:
		p.FailOn(m.Name, b.At, "block without effect",
			"Node %q joins no cluster, so it has no container runtime that pulls images. Remove it.", m.Name)
	case p.Cluster != nil && p.Cluster.Base.Runtime.Kind != "" && p.Cluster.Base.Runtime.Kind != "containerd":
		p.FailOn(m.Name, b.At, "block without effect", "Images are pulled through the CRI, which the runtime %q of node "+
			"%q does not serve. Use containerd, or remove the block.", p.Cluster.Base.Runtime.Kind, m.Name)
	}
}
