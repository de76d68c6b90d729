package plan

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
	defaultNodeMask = 24
	smallestNode    = 29
	kubeletMaxPods  = 110 // default of the kubelet's maxPods
)

// spareAddresses of a node's network are not for pods: that of the network, of the
// broadcast and of the source VIP, and the two that HNS takes for its gateway.
const spareAddresses = 5

// nodeNetworks reads how large the network of a node is, and holds the networks
// against what nodes need besides.
func (c *compiler) nodeNetworks(s *eval.Section, k *cluster) {
	k.nodeMask = int(s.Int("node_cidr_mask", defaultNodeMask, smallestNode, defaultNodeMask))
	k.nodeMaskGiven = s.Has("node_cidr_mask")
	if k.pods.IsValid() && k.pods.Bits() > k.nodeMask {
		s.Fail("pod_cidr", "network too small", "%s has no room for one node: each node takes a /%d of it. Use a /16 or so.", k.pods, k.nodeMask)
	}
	for _, n := range []struct {
		argument, what string
		net            netip.Prefix
	}{{"pod_cidr", "pods", k.pods}, {"service_cidr", "services", k.services}} {
		if n.net.IsValid() && n.net.Overlaps(placeholder) {
			s.Fail(n.argument, "overlapping networks", "The %s' network %s shares addresses with %s, which Windows nodes use for a placeholder of the host network. Choose another.", n.what, n.net, placeholder)
		}
	}
	if u, err := url.Parse(k.APIServer); err == nil {
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			if why := k.clash(ip); why != "" {
				s.Fail("api_server", "overlapping networks", "The API server's address %s lies in %s, so a node could not reach it before it has joined.", ip, why)
			}
		}
	}
}

// clash names the network of the cluster in which an address of a machine must not lie.
func (k *cluster) clash(ip netip.Addr) string {
	for _, n := range []netip.Prefix{k.pods, k.pods6} {
		if n.Contains(ip) {
			return fmt.Sprintf("the pods' network %s", n)
		}
	}
	for _, n := range []netip.Prefix{k.services, k.services6} {
		if n.Contains(ip) {
			return fmt.Sprintf("the services' network %s", n)
		}
	}
	if placeholder.Contains(ip) {
		return fmt.Sprintf("the network %s, which Windows nodes use for a placeholder of the host network", placeholder)
	}
	return ""
}

// machineAddress judges an address at which a machine is reached.
func (c *compiler) machineAddress(s *eval.Section, argument, text string) {
	ip, err := netip.ParseAddr(text)
	if err != nil || c.cluster == nil {
		return // a name, or reported
	}
	if why := c.cluster.clash(ip); why != "" {
		s.Fail(argument, "overlapping networks", "The machine's address %s lies in %s. Choose another network for the cluster.", ip, why)
	}
}

// manyPods holds max_pods, or the kubelet's default, against the network of a node.
// inherited is what holds where the section says nothing.
func (c *compiler) manyPods(s *eval.Section, own, inherited int, node string) {
	mask, given := defaultNodeMask, false
	if c.cluster != nil {
		mask, given = c.cluster.nodeMask, c.cluster.nodeMaskGiven
	}
	if mask == 0 {
		return
	}
	room := 1<<(32-mask) - spareAddresses
	n := own
	if n == 0 && inherited == 0 && node != "" && given {
		n = kubeletMaxPods
	}
	switch {
	case n <= room:
	case !given:
		c.Warn(s.At("max_pods"), "more pods than addresses", "A node has a /24 of the pods' network, unless the cluster gives it another (node_cidr_mask), and that has %d addresses for pods. With max_pods = %d the last pods would wait for an address for ever.", room, n)
	case own == 0:
		s.OK = false
		c.FailOn(node, s.Block.DefRange, "more pods than addresses", "Node %q has a /%d of the pods' network, with %d addresses for pods, and the kubelet takes up to %d pods unless told otherwise. Give max_pods = %d or less.", node, mask, room, n, room)
	default:
		s.Fail("max_pods", "more pods than addresses", "A node has a /%d of the pods' network, with %d addresses for pods. With max_pods = %d the last pods would wait for an address for ever.", mask, room, n)
	}
}

// roomForNodes holds the number of nodes against the pods' network.
func (c *compiler) roomForNodes() {
	k := c.cluster
	if k == nil || !k.pods.IsValid() || k.pods.Bits() > k.nodeMask {
		return
	}
	c.roomForNodes6(k)
	if networks := 1 << (k.nodeMask - k.pods.Bits()); len(c.machines) > networks {
		c.Fail(k.podsAt, "network too small", "%s has %d networks of /%d, one for each node, and the plan has %d nodes. Use a larger pod_cidr; the other nodes of the cluster take networks of it, too.", k.pods, networks, k.nodeMask, len(c.machines))
	}
}
