package rule

import (
	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
)

// onOneLink reports a node that is known to be in another network than the first: host-gw sends
// packets to the other node itself, and no router may be between them. The plan does not say
// how long the prefixes of the machines' networks are, so only addresses of different private
// blocks (RFC 1918), or of one and of none, are certainly in different networks.
func onOneLink(p *block.Plan) {
	if p.Cluster == nil || p.Cluster.Base.Network.Backend != recipe.HostGW {
		return
	}
	var before *block.Machine
	for _, m := range p.Machines {
		ip := m.IPv4()
		if m.Bad || !ip.IsValid() {
			continue
		}
		if before == nil {
			before = m
			continue
		}
		if block.PrivateBlock(ip) != block.PrivateBlock(before.IPv4()) {
			p.FailOn(m.Name, m.Range, "nodes on different links", "Node %q has the address %s and node %q has %s, which "+
				"cannot be in one network. The backend \"host-gw\" routes from node to node without a router between them. Use "+
				"the backend \"vxlan\", or nodes of one network.", m.Name, ip, before.Name, before.IPv4())
			m.Bad = true
		}
	}
}
