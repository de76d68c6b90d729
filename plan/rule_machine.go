package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"nodejoin/plan/eval"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// sameMachine reports nodes that are reached in the same way, or have one address: a
// machine is one node.
func sameMachine(p *decoded) {
	reached, addresses := map[string]*machine{}, map[netip.Addr]givenAddress{}
	for _, m := range p.machines {
		if !m.OK {
			continue
		}
		key := m.Connection.Type
		switch m.Connection.Type {
		case "ssh":
			s := m.Connection.SSH
			key += fmt.Sprintf(" %q %d %q", strings.ToLower(s.Host), cmp.Or(s.Port, 22), s.Jump)
		case "sandbox":
			key += " " + m.Connection.Sandbox.Path
		}
		if before := reached[key]; before != nil {
			p.FailOn(m.Name, m.reached, "two nodes on one machine", "Node %q is reached in the same way as node %q at %s, so both would be set up on one machine, each undoing the other. Remove one of them, or give each a connection of its own%s.", m.Name, before.Name, p.Files.Place(before.reached), byEach(before, m))
			m.OK = false
			continue
		}
		reached[key] = m
		if p.cluster == nil {
			continue // in a cluster a Node is found by its address
		}
		for _, a := range m.given() {
			if before, there := addresses[a.ip]; there {
				p.FailOn(m.Name, a.at, "two nodes with one address", "Node %q has the address %s, and so has node %q at %s: what the cluster sends to the one would reach the other. Give each its own%s.", m.Name, a.ip, before.of.Name, p.Files.Place(before.at), byEach(before.of, m))
				m.OK = false
				break
			}
			addresses[a.ip] = a
		}
	}
}

// byEach says how the nodes of one block come to differ.
func byEach(a, b *machine) string {
	if a.at != b.at {
		return ""
	}
	return ": it is one block that makes both, so let it depend on each.key, each.value or count.index"
}

// nodeNames reports Nodes of one name.
func nodeNames(p *decoded) {
	first := map[string]*machine{}
	for _, m := range p.machines {
		key := strings.ToLower(m.Name)
		if key == "" {
			continue // why it has no name was reported
		}
		if before := first[key]; before != nil {
			if before.at == m.at {
				p.Fail(m.at, "duplicate name", "This block makes two nodes with the name %q. Names of Nodes are unique in a cluster; let the argument \"name\" depend on each.key or count.index, or leave it out.", m.Name)
			} else {
				p.Fail(m.at, "duplicate name", "There is another node %q at %s. Names of Nodes are unique in a cluster, and case does not count.", before.Name, p.Files.Place(before.at))
			}
			m.OK = false
			continue
		}
		first[key] = m
	}
}

// addressesApart reports addresses of a machine in a network of the cluster.
func addressesApart(p *decoded, m *machine) {
	k := p.cluster
	if k == nil {
		return
	}
	if ip, err := netip.ParseAddr(m.managementIP); err == nil && ip.Is4() {
		m.addressAt = hcl.Range{}
		switch {
		case k.pods.Contains(ip):
			m.Fail("management_ip", "overlapping networks", "The machine's address %s lies in the pods' network %s, so pods would take its packets for their own. Choose another pod_cidr.", ip, k.pods)
		case k.services.Contains(ip):
			m.Fail("management_ip", "overlapping networks", "The machine's address %s lies in the services' network %s. Choose another service_cidr.", ip, k.services)
		default:
			addressApart(k, m.Section, "management_ip", m.managementIP)
			m.addressAt = m.At("management_ip")
		}
	}
	addressApart(k, m.Section, "management_ip6", m.management6)
	if ssh := m.Connection.SSH; ssh != nil {
		addressApart(k, m.conn, "host", ssh.Host)
	}
	if box := m.Connection.Sandbox; box != nil {
		addressApart(k, m.conn, "ip", box.IP)
		addressApart(k, m.conn, "ip6", box.IP6)
	}
	m.OK = m.OK && (m.conn == nil || m.conn.OK)
}

// addressApart reports an address at which a machine is reached in a network of the cluster.
func addressApart(k *cluster, s *eval.Section, argument, text string) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return // a name, or reported
	}
	if why := k.clash(ip); why != "" {
		s.Fail(argument, "overlapping networks", "The machine's address %s lies in %s. Choose another network for the cluster.", ip, why)
	}
}
