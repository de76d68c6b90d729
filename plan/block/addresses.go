package block

import (
	"fmt"
	"net/netip"
	"net/url"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// placeholder is the network of the HNS network "External", which the upstream
// scripts make once so that later ones do not break connections.
var placeholder = netip.MustParsePrefix(recipe.PlaceholderSubnet)

// Networks of nodes: kube-controller-manager's --node-cidr-mask-size and its
// default. flannel on Windows works with /24 and smaller.
const (
	DefaultNodeMask = 24
	smallestNode    = 29
	KubeletMaxPods  = 110 // default of the kubelet's maxPods
)

// SpareAddresses of a node's network are not for pods: that of the network, of the
// broadcast and of the source VIP, and the two that HNS takes for its gateway.
const SpareAddresses = 5

// nodeNetworks reads how large the network of a node is, and compares the networks with other
// ones that nodes use.
func nodeNetworks(s *eval.Section, k *ClusterBlocks) {
	k.NodeMask = int(s.Int("node_cidr_mask", DefaultNodeMask, smallestNode, DefaultNodeMask))
	k.NodeMaskGiven = s.Has("node_cidr_mask")
	if k.Pods.IsValid() && k.Pods.Bits() > k.NodeMask {
		s.Fail("pod_cidr", "network too small", "%s has no room for one node: each node takes a /%d of it. Use a /16 or so.",
			k.Pods, k.NodeMask)
	}
	for _, n := range []struct {
		argument, what string
		net            netip.Prefix
	}{{"pod_cidr", "pods", k.Pods}, {"service_cidr", "services", k.Services}} {
		if n.net.IsValid() && n.net.Overlaps(placeholder) {
			s.Fail(n.argument, "overlapping networks", "The %s' network %s shares addresses with %s, which Windows nodes "+
				"use for a placeholder of the host network. Choose another.", n.what, n.net, placeholder)
		}
	}
	if u, err := url.Parse(k.APIServer); err == nil {
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			if why := k.Clash(ip); why != "" {
				s.Fail("api_server", "overlapping networks",
					"The API server's address %s lies in %s, so a node could not reach it before it has joined.", ip, why)
			}
		}
	}
}

// Clash names the network of the cluster in which an address of a machine must not lie.
func (k *ClusterBlocks) Clash(ip netip.Addr) string {
	for _, n := range []netip.Prefix{k.Pods, k.Pods6} {
		if n.Contains(ip) {
			return fmt.Sprintf("the pods' network %s", n)
		}
	}
	for _, n := range []netip.Prefix{k.Services, k.services6} {
		if n.Contains(ip) {
			return fmt.Sprintf("the services' network %s", n)
		}
	}
	if placeholder.Contains(ip) {
		return fmt.Sprintf("the network %s, which Windows nodes use for a placeholder of the host network", placeholder)
	}
	return ""
}
