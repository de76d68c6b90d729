package plan

import (
	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
	"strings"
)

// flannelFamilies reports networks of both families that flannel would have to carry.
func flannelFamilies(p *decoded) {
	k := p.cluster
	if k == nil || k.network == nil || k.network.Network.Kind != "flannel" || !k.pods6.IsValid() {
		return
	}
	why := "flannel and kube-proxy use an overlay for IPv4 only"
	if k.base.Network.Backend == recipe.HostGW {
		why = "flannel's backend \"host-gw\" routes IPv4 only, though an L2Bridge network could carry both"
	}
	k.FailAt(k.podsAt, "dual stack not possible", "The networks are of both families, and on Windows %s. Give those of IPv4 alone, or use network \"none\" and a CNI of the cluster's own that has both on L2Bridge.", why)
}

// addressOfOneFamily reports an address of IPv6 of a node whose cluster has IPv4 alone.
func addressOfOneFamily(p *decoded, m *machine) {
	if m.management6 == "" || p.cluster == nil || !p.cluster.whole() || p.cluster.pods6.IsValid() {
		return
	}
	m.Fail("management_ip6", "address of IPv6 not needed", "The cluster's pods and services are of IPv4 alone, and so are its nodes. Remove the argument, or give pod_cidr and service_cidr networks of both families.")
}

// cloudAddresses reports an address of IPv6 beside a cloud provider, which gives Nodes
// their addresses: a kubelet that takes both ends otherwise.
func cloudAddresses(p *decoded, m *machine) {
	if m.management6 == "" || p.cluster == nil {
		return
	}
	for _, a := range m.components["kubelet"].args {
		provider, given := strings.CutPrefix(a, "--cloud-provider=")
		have, err := compat.Kubelet(p.cluster.Version)
		if !given || provider == "" || err != nil || provider == "external" && have.CloudDualStack {
			continue
		}
		p.FailOn(m.Name, m.address6At, "addresses come from the cloud", "Node %q has management_ip6, and the kubelet of Kubernetes %s ends when it is given addresses of both families beside %s: the cloud tells it. Remove management_ip6, or use Kubernetes 1.29 or later with --cloud-provider=external.", m.Name, p.cluster.Version, a)
		m.OK = false
	}
}

// roomForNodes6 holds the number of nodes against the pods' network of IPv6.
func roomForNodes6(p *decoded, k *cluster) {
	if !k.pods6.IsValid() || k.pods6.Bits() <= nodeMask6-16 {
		return // kube-controller-manager divides a network into no more than 1<<16
	}
	networks := 0
	if k.pods6.Bits() <= nodeMask6 {
		networks = 1 << (nodeMask6 - k.pods6.Bits())
	}
	if len(p.machines) > networks {
		p.Warn(k.podsAt, "network of IPv6 small", "%s has %d networks of /%d, one for each node unless kube-controller-manager is told otherwise (--node-cidr-mask-size-ipv6), and the plan has %d nodes. Use a larger network, or see that the CNI or that flag divides it further.", k.pods6, networks, nodeMask6, len(p.machines))
	}
}
