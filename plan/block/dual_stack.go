package block

import (
	"net/netip"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
)

// NodeMask6 is the length of the prefix of one node's IPv6 network, unless
// kube-controller-manager is told otherwise (--node-cidr-mask-size-ipv6).
const NodeMask6 = 64

// networks is an argument of one network of IPv4, or of one of IPv4 and one of IPv6 as
// kubeadm takes them; zero Prefixes when it is wrong.
func networkArg(s *eval.Section, name, fallback string) (v4, v6 netip.Prefix) {
	text := s.StrOr(name, fallback)
	if text == "" {
		return
	}
	var list []netip.Prefix
	ipv4 := 0
	for one := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			s.Fail(name, "invalid network", "%q is not a network. Write ADDRESS/BITS, for example %q.", one, fallback)
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
		s.Fail(name, "IPv6 not possible", "%s is an IPv6 network. There are no clusters of IPv6 alone with Windows "+
			"nodes, and overlay networks on Windows carry IPv4 only. Use an IPv4 network.", list[0])
	case len(list) != 2 || ipv4 != 1:
		s.Fail(name, "too many networks", "%q are %d networks, %d of them of IPv4. A cluster has one of IPv4, or one of "+
			"IPv4 and one of IPv6. Remove the others.", text, len(list), ipv4)
	case !list[0].Addr().Is4():
		s.Fail(name, "IPv6 first", "The first network is that of IPv6, and services would be of IPv6 unless they say "+
			"otherwise; Windows nodes are of IPv4 first. Write \"%s,%s\", and let the control plane have the same order.",
			list[1], list[0])
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

// dualStack checks networks of both families against each other and the version.
func dualStack(s *eval.Section, k *ClusterBlocks) {
	with, without := "pod_cidr", "service_cidr"
	if k.services6.IsValid() {
		with, without = without, with
	}
	switch {
	case !k.Pods6.IsValid() && !k.services6.IsValid() || !k.Pods.IsValid() || !k.Services.IsValid():
		return // one family, or reported
	case k.Pods6.IsValid() != k.services6.IsValid():
		s.Fail(without, "network of IPv6 missing", "%s has a network of IPv6 and %s has none, so pods and services would "+
			"not be of the same families. Give both one, or neither.", with, without)
		return
	}
	if have, err := compat.Kubelet(k.Version); err == nil && have.Supported && !have.DualStack {
		s.Fail("pod_cidr", "version without dual stack", "Kubernetes %s does not know pods and services of both families "+
			"as later versions do. Use 1.20 or later, or give the networks of IPv4 alone.", k.Version)
	}
}

// address6 returns a machine's IPv6 address in canonical form; "" if it is wrong.
func address6(s *eval.Section, argument, text string) string {
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is6() || ip.Is4In6() || ip.Zone() != "" || !ip.IsGlobalUnicast() {
		s.Fail(argument, "invalid address",
			"%q is not an address of IPv6 at which other machines reach this one. Write it as 2001:db8::10.", text)
		return ""
	}
	return ip.String()
}
