package plan

import (
	"net/netip"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// nodeMask6 is the length of the prefix of one node's IPv6 network, unless
// kube-controller-manager is told otherwise (--node-cidr-mask-size-ipv6).
const nodeMask6 = 64

// networks is an argument of one network of IPv4, or of one of IPv4 and one of IPv6 as
// kubeadm takes them; zero Prefixes when it is wrong.
func (c *compiler) networks(s *eval.Section, name, fallback string) (v4, v6 netip.Prefix) {
	text := s.StrOr(name, fallback)
	if text == "" {
		return
	}
	var list []netip.Prefix
	ipv4 := 0
	for one := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			s.Fail(name, "invalid network", "%q is no network. Write ADDRESS/BITS, for example %q.", one, fallback)
			return
		}
		if p != p.Masked() {
			s.Fail(name, "invalid network", "%s has host bits set. The network is %s.", p, p.Masked())
		}
		if p.Addr().Is4() {
			ipv4++
		}
		list = append(list, p.Masked())
	}
	switch {
	case len(list) == 1 && ipv4 == 1:
		return list[0], v6
	case len(list) == 1:
		s.Fail(name, "IPv6 not possible", "%s is an IPv6 network. There are no clusters of IPv6 alone with Windows nodes, and overlay networks on Windows carry IPv4 only. Use an IPv4 network.", list[0])
	case len(list) != 2 || ipv4 != 1:
		s.Fail(name, "too many networks", "%q are %d networks, %d of them of IPv4. A cluster has one of IPv4, or one of IPv4 and one of IPv6. Remove the others.", text, len(list), ipv4)
	case !list[0].Addr().Is4():
		s.Fail(name, "IPv6 first", "The first network is that of IPv6, and services would be of IPv6 unless they say otherwise; Windows nodes are of IPv4 first. Write \"%s,%s\", and let the control plane have the same order.", list[1], list[0])
	default:
		return list[0], list[1]
	}
	return
}

// families joins the networks of both families as Kubernetes takes them.
func families(v4, v6 netip.Prefix) string {
	if !v6.IsValid() {
		return v4.String()
	}
	return v4.String() + "," + v6.String()
}

// dualStack holds networks of both families against each other and the version.
func (c *compiler) dualStack(s *eval.Section, k *cluster) {
	with, without := "pod_cidr", "service_cidr"
	if k.services6.IsValid() {
		with, without = without, with
	}
	switch {
	case !k.pods6.IsValid() && !k.services6.IsValid() || !k.pods.IsValid() || !k.services.IsValid():
		return // one family, or reported
	case k.pods6.IsValid() != k.services6.IsValid():
		s.Fail(without, "network of IPv6 missing", "%s has a network of IPv6 and %s has none, so pods and services would not be of the same families. Give both one, or neither.", with, without)
		return
	}
	if have, err := compat.Kubelet(k.Version); err == nil && have.Supported && !have.DualStack {
		s.Fail("pod_cidr", "version without dual stack", "Kubernetes %s does not know pods and services of both families as later versions do. Use 1.20 or later, or give the networks of IPv4 alone.", k.Version)
	}
}

// flannelFamilies reports networks of both families that flannel would have to carry.
func (c *compiler) flannelFamilies(k *cluster) {
	if !k.pods6.IsValid() {
		return
	}
	why := "flannel and kube-proxy use an overlay for IPv4 only"
	if k.base.Network.Backend == recipe.HostGW {
		why = "flannel's backend \"host-gw\" routes IPv4 only, though an L2Bridge network could carry both"
	}
	c.Fail(k.podsAt, "dual stack not possible", "The networks are of both families, and on Windows %s. Give those of IPv4 alone, or use network \"none\" and a CNI of the cluster's own that has both on L2Bridge.", why)
}

// managementIP6 reads the machine's address of IPv6, which its kubelet reports beside
// the other.
func (c *compiler) managementIP6(s *eval.Section, m *machine) {
	const argument = "management_ip6"
	if text := s.Str(argument); text != "" {
		m.management6, m.address6At = c.address6(s, argument, text), s.At(argument)
	}
	if m.management6 == "" || c.cluster == nil || !c.cluster.complete || c.cluster.pods6.IsValid() {
		return
	}
	s.Fail(argument, "address of IPv6 not needed", "The cluster's pods and services are of IPv4 alone, and so are its nodes. Remove the argument, or give pod_cidr and service_cidr networks of both families.")
}

// address6 gives an address of IPv6 of a machine as programs write it; "" when it is wrong.
func (c *compiler) address6(s *eval.Section, argument, text string) string {
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is6() || ip.Is4In6() || ip.Zone() != "" || !ip.IsGlobalUnicast() {
		s.Fail(argument, "invalid address", "%q is no address of IPv6 at which other machines reach this one. Write it as 2001:db8::10.", text)
		return ""
	}
	c.machineAddress(s, argument, text)
	return ip.String()
}

// cloudAddresses reports an address of IPv6 beside a cloud provider, which gives Nodes
// their addresses: a kubelet that takes both ends otherwise.
func (c *compiler) cloudAddresses(m *machine) {
	if m.management6 == "" || c.cluster == nil {
		return
	}
	for _, a := range m.components["kubelet"].args {
		provider, given := strings.CutPrefix(a, "--cloud-provider=")
		have, err := compat.Kubelet(c.cluster.Version)
		if !given || provider == "" || err != nil || provider == "external" && have.CloudDualStack {
			continue
		}
		c.FailOn(m.Name, m.address6At, "addresses come from the cloud", "Node %q has management_ip6, and the kubelet of Kubernetes %s ends when it is given addresses of both families beside %s: the cloud tells it. Remove management_ip6, or use Kubernetes 1.29 or later with --cloud-provider=external.", m.Name, c.cluster.Version, a)
		m.bad = true
	}
}

// roomForNodes6 holds the number of nodes against the pods' network of IPv6.
func (c *compiler) roomForNodes6(k *cluster) {
	if !k.pods6.IsValid() || k.pods6.Bits() <= nodeMask6-16 {
		return // kube-controller-manager divides a network into no more than 1<<16
	}
	networks := 0
	if k.pods6.Bits() <= nodeMask6 {
		networks = 1 << (nodeMask6 - k.pods6.Bits())
	}
	if len(c.machines) > networks {
		c.Warn(k.podsAt, "network of IPv6 small", "%s has %d networks of /%d, one for each node unless kube-controller-manager is told otherwise (--node-cidr-mask-size-ipv6), and the plan has %d nodes. Use a larger network, or see that the CNI or that flag divides it further.", k.pods6, networks, nodeMask6, len(c.machines))
	}
}
