package rule

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
)

// sameMachine reports nodes that are reached in the same way, or have one address: a
// machine is one node.
func sameMachine(p *block.Plan) {
	reached, addresses := map[string]*block.Machine{}, map[netip.Addr]block.GivenAddress{}
	for _, m := range p.Machines {
		if !m.OK {
			continue
		}
		key := m.Connection.Type
		switch m.Connection.Type {
		case "ssh":
			s := m.Connection.SSH
			key += fmt.Sprintf(" %q %d %q", strings.ToLower(s.Host), cmp.Or(s.Port, 22), s.Jump)
		case "winrm":
			w := m.Connection.WinRM
			key += fmt.Sprintf(" %q %d", strings.ToLower(w.Host), cmp.Or(w.Port, block.WinRMPort))
			if w.Through != nil {
				key += fmt.Sprintf(" %q", w.Through.Jump)
			}
		case "sandbox":
			key += " " + m.Connection.Sandbox.Path
		}
		if before := reached[key]; before != nil {
			p.FailOn(m.Name, m.Reached, "two nodes on one machine", "Node %q is reached in the same way as node %q at %s, "+
				"so both would be set up on one machine, each undoing the other. Remove one of them, or give each a connection "+
				"of its own%s.", m.Name, before.Name, p.Files.Place(before.Reached), byEach(before, m))
			m.OK = false
			continue
		}
		reached[key] = m
		if p.Cluster == nil {
			continue // in a cluster a Node is found by its address
		}
		for _, a := range m.Addresses() {
			if before, there := addresses[a.IP]; there {
				p.FailOn(m.Name, a.At, "two nodes with one address", "Node %q has the address %s, and so has node %q at %s: "+
					"what the cluster sends to the one would reach the other. Give each its own%s.", m.Name, a.IP, before.Of.Name,
					p.Files.Place(before.At), byEach(before.Of, m))
				m.OK = false
				break
			}
			addresses[a.IP] = a
		}
	}
}

// byEach ends a sentence with how the nodes of one block can differ.
func byEach(a, b *block.Machine) string {
	if a.Range != b.Range {
		return ""
	}
	return ": one block makes both, so let it depend on each.key, each.value or count.index"
}

// nodeNames reports two Nodes with one name.
func nodeNames(p *block.Plan) {
	first := map[string]*block.Machine{}
	for _, m := range p.Machines {
		key := strings.ToLower(m.Name)
		if key == "" {
			continue // why it has no name was reported
		}
		if before := first[key]; before != nil {
			if before.Range == m.Range {
				p.Fail(m.Range, "duplicate name", "This block makes two nodes with the name %q. Names of Nodes are unique in a "+
					"cluster; let the argument \"name\" depend on each.key or count.index, or leave it out.", m.Name)
			} else {
				p.Fail(m.Range, "duplicate name",
					"There is another node %q at %s. Names of Nodes are unique in a cluster, and case does not count.", before.Name,
					p.Files.Place(before.Range))
			}
			m.OK = false
			continue
		}
		first[key] = m
	}
}

// addressesApart reports addresses of a machine in a network of the cluster.
func addressesApart(p *block.Plan, m *block.Machine) {
	k := p.Cluster
	if k == nil {
		return
	}
	if ip, err := netip.ParseAddr(m.IP); err == nil && ip.Is4() {
		m.IPAt = hcl.Range{}
		switch {
		case k.Pods.Contains(ip):
			m.Fail("management_ip", "overlapping networks", "The machine's address %s lies in the pods' network %s, so "+
				"its packets would look like those of pods. Choose another pod_cidr.", ip, k.Pods)
		case k.Services.Contains(ip):
			m.Fail("management_ip", "overlapping networks",
				"The machine's address %s lies in the services' network %s. Choose another service_cidr.", ip, k.Services)
		default:
			addressApart(k, m.Section, "management_ip", m.IP)
			m.IPAt = m.At("management_ip")
		}
	}
	addressApart(k, m.Section, "management_ip6", m.IP6)
	if ssh := m.Connection.SSH; ssh != nil {
		addressApart(k, m.Conn, "host", ssh.Host)
	}
	if w := m.Connection.WinRM; w != nil {
		addressApart(k, m.Conn, "host", w.Host)
	}
	if box := m.Connection.Sandbox; box != nil {
		addressApart(k, m.Conn, "ip", box.IP)
		addressApart(k, m.Conn, "ip6", box.IP6)
	}
	m.OK = m.OK && (m.Conn == nil || m.Conn.OK)
}

// addressApart reports an address at which a machine is reached in a network of the cluster.
func addressApart(k *block.ClusterBlocks, s *eval.Section, argument, text string) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return // a name, or reported
	}
	if why := k.Clash(ip); why != "" {
		s.Fail(argument, "overlapping networks",
			"The machine's address %s lies in %s. Choose another network for the cluster.", ip, why)
	}
}
