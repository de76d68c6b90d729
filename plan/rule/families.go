package rule

import (
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
)

// flannelFamilies reports networks of both families that flannel would have to carry.
func flannelFamilies(p *block.Plan) {
	k := p.Cluster
	if k == nil || k.NetworkBlock == nil || k.NetworkBlock.Kind != "flannel" || !k.Pods6.IsValid() {
		return
	}
	why := "flannel and kube-proxy use an overlay for IPv4 only"
	if k.Base.Network.Backend == recipe.HostGW {
		why = "flannel's backend \"host-gw\" routes IPv4 only, though an L2Bridge network could carry both"
	}
	k.FailAt(k.PodsAt, "dual stack not possible", "The networks are of both families, and on Windows %s. Give only "+
		"those of IPv4, or use network \"none\" and a CNI of the cluster's own that has both on L2Bridge.", why)
}

// addressOfOneFamily reports an address of IPv6 of a node whose cluster has IPv4 alone.
func addressOfOneFamily(p *block.Plan, m *block.Machine) {
	if m.IP6 == "" || p.Cluster == nil || !p.Cluster.Whole() || p.Cluster.Pods6.IsValid() {
		return
	}
	m.Fail("management_ip6", "address of IPv6 not needed", "The cluster's pods and services use IPv4 only, and so "+
		"do its nodes. Remove the argument, or give pod_cidr and service_cidr networks of both families.")
}

// cloudAddresses reports an address of IPv6 beside a cloud provider, which gives Nodes
// their addresses: a kubelet that takes both ends otherwise.
func cloudAddresses(p *block.Plan, m *block.Machine) {
	if m.IP6 == "" || p.Cluster == nil {
		return
	}
	for _, a := range m.Components["kubelet"].Args {
		provider, given := strings.CutPrefix(a, "--cloud-provider=")
		have, err := compat.Kubelet(p.Cluster.Version)
		if !given || provider == "" || err != nil || provider == "external" && have.CloudDualStack {
			continue
		}
		p.FailOn(m.Name, m.IP6At, "addresses come from the cloud", "Node %q has management_ip6, and the kubelet of "+
			"Kubernetes %s exits when it is given addresses of both families together with %s: it takes its addresses "+
			"from the cloud. Remove "+
			"management_ip6, or use Kubernetes 1.29 or later with --cloud-provider=external.", m.Name, p.Cluster.Version, a)
		m.OK = false
	}
}

// roomForNodes6 checks the number of nodes against the pods' network of IPv6.
func roomForNodes6(p *block.Plan, k *block.ClusterBlocks) {
	if !k.Pods6.IsValid() || k.Pods6.Bits() <= block.NodeMask6-16 {
		return // kube-controller-manager divides a network into no more than 1<<16
	}
	networks := 0
	if k.Pods6.Bits() <= block.NodeMask6 {
		networks = 1 << (block.NodeMask6 - k.Pods6.Bits())
	}
	if len(p.Machines) > networks {
		p.Warn(k.PodsAt, "network of IPv6 small", "%s has %d networks of /%d, one for each node unless "+
			"kube-controller-manager is configured otherwise (--node-cidr-mask-size-ipv6), and the plan has %d nodes. Use a "+
			"larger network, or make sure that the CNI or that flag divides it further.", k.Pods6, networks, block.NodeMask6,
			len(p.Machines))
	}
}
