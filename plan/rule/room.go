package rule

import (
	"nodejoin/plan/block"
	"nodejoin/plan/eval"
)

// manyPods checks max_pods, or the kubelet's default, against the network of a node. inherited
// applies if the section gives none.
func manyPods(p *block.Plan, s *eval.Section, own, inherited int, node string) {
	mask, given := block.DefaultNodeMask, false
	if p.Cluster != nil {
		mask, given = p.Cluster.NodeMask, p.Cluster.NodeMaskGiven
	}
	if mask == 0 {
		return
	}
	room := 1<<(32-mask) - block.SpareAddresses
	n := own
	if n == 0 && inherited == 0 && node != "" && given {
		n = block.KubeletMaxPods
	}
	switch {
	case n <= room:
	case !given:
		p.Warn(s.At("max_pods"), "more pods than addresses", "A node has a /24 of the pods' network, unless the cluster "+
			"gives it another (node_cidr_mask), and that has %d addresses for pods. With max_pods = %d the last pods would "+
			"wait for an address forever.", room, n)
	case own == 0:
		s.OK = false
		p.FailOn(node, s.Block.DefRange, "more pods than addresses", "Node %q has a /%d of the pods' network, with %d "+
			"addresses for pods, and the kubelet takes up to %d pods unless told otherwise. Give max_pods = %d or less.", node,
			mask, room, n, room)
	default:
		s.Fail("max_pods", "more pods than addresses", "A node has a /%d of the pods' network, with %d addresses for "+
			"pods. With max_pods = %d the last pods would wait for an address forever.", mask, room, n)
	}
}

// roomForNodes checks the number of nodes against the pods' network.
func roomForNodes(p *block.Plan) {
	k := p.Cluster
	if k == nil || !k.Pods.IsValid() || k.Pods.Bits() > k.NodeMask {
		return
	}
	roomForNodes6(p, k)
	if networks := 1 << (k.NodeMask - k.Pods.Bits()); len(p.Machines) > networks {
		p.Fail(k.PodsAt, "network too small", "%s has %d networks of /%d, one for each node, and the plan has %d nodes. "+
			"Use a larger pod_cidr; the other nodes of the cluster take networks of it, too.", k.Pods, networks, k.NodeMask,
			len(p.Machines))
	}
}
