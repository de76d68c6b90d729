package rule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// nodePorts is the range of ports of services of type NodePort, unless the plan gives
// another (kubernetes cmd/kube-apiserver, --service-node-port-range).
var nodePorts = host.PortRange{Protocol: "tcp", First: 30000, Last: 32767}

// boundPort is a port of a program of the node.
type boundPort struct {
	program, protocol string
	port              uint16
}

func (b boundPort) in(r host.PortRange) bool {
	return b.protocol == r.Protocol && r.First <= b.port && b.port <= r.Last
}

// boundPorts are those that the programs of a node listen on (kubernetes
// pkg/cluster/ports).
func boundPorts(p *block.Plan) []boundPort {
	if p.Cluster == nil {
		return nil
	}
	out := []boundPort{{"The kubelet", "tcp", 10248}, {"The kube-proxy", "tcp", 10249}, {"The kubelet", "tcp", 10250},
		{"The kube-proxy", "tcp", 10256}}
	if port := p.Cluster.Base.Network.Port; port != 0 {
		out = append(out, boundPort{"The pod network", "udp", port})
	}
	return out
}

// dynamicPorts reports dynamic ports that the node needs itself.
func dynamicPorts(p *block.Plan, m *block.Machine) {
	b := m.Said["host"]
	for _, a := range b.HostArgs() {
		if a.Name != "dynamic_ports" || elsewhere(m) || reported(p, a.At) {
			continue
		}
		r, why := block.DynamicRange(a.Value.AsString())
		if why != "" {
			continue
		}
		bound := boundPorts(p)
		if i := slices.IndexFunc(bound, func(o boundPort) bool { return o.in(r) }); i >= 0 {
			p.FailOn(m.Name, a.At, "ports of the node",
				"%s of node %q has port %d, which any program could get before it starts. Let the dynamic ports "+
					"begin after %d.",
				bound[i].program, m.Name, bound[i].port, bound[i].port)
			continue
		}
		dynamicNodePorts(p, m, a.At, r)
	}
}

// dynamicNodePorts warns of dynamic ports that are also for services of type NodePort,
// unless they are reserved.
func dynamicNodePorts(p *block.Plan, m *block.Machine, at hcl.Range, r host.PortRange) {
	want := nodePorts
	if list, why := block.PortRanges(m.Said["firewall"].Text("node_ports")); why == "" && len(list) == 1 {
		want.First, want.Last = uint16(list[0].First), uint16(list[0].Last)
	}
	if p.Cluster == nil || r.First > want.Last || want.First > r.Last {
		return
	}
	both := host.PortRange{Protocol: "tcp", First: max(r.First, want.First), Last: min(r.Last, want.Last)}
	for _, o := range block.ReservedPorts(m.Said["host"].Args["reserved_ports"]) {
		if o.Protocol == both.Protocol && o.First <= both.First && both.Last <= o.Last {
			return
		}
	}
	p.WarnOn(m.Name, at, "node ports are given out", "Ports %s of node %q are for services of type NodePort, "+
		"and any program could get one of them. Add reserved_ports = [%q], or let the dynamic ports begin after %d.", both,
		m.Name, both, want.Last)
}

// reservedPorts reports reserved ports that a program of the node listens on.
func reservedPorts(p *block.Plan, m *block.Machine) {
	g := m.Said["host"].Args["reserved_ports"]
	if g.Value == cty.NilVal || elsewhere(m) || reported(p, g.At) {
		return
	}
	for _, r := range block.ReservedPorts(g) {
		for _, o := range boundPorts(p) {
			if o.in(r) {
				p.FailOn(m.Name, g.At, "ports of the node", "%s of node %q has port %d/%s, and a program may not get a "+
					"reserved port even if it asks for it. Leave it out of \"reserved_ports\".", o.program, m.Name, o.port,
					o.protocol)
				return
			}
		}
	}
}

// exporterPort reports a port of windows_exporter that a program of the node has.
func exporterPort(p *block.Plan, m *block.Machine) {
	b, ok := exporter(p, m)
	if !ok {
		return
	}
	port, valid := b.Port(recipe.ExporterPort)
	for _, o := range boundPorts(p) {
		if valid && o.protocol == "tcp" && o.port == port {
			at := b.At
			if g, ok := b.Args["port"]; ok {
				at = g.At
			}
			p.FailOn(m.Name, at, "ports of the node", "%s of node %q has port %d. Give windows_exporter another.", o.program,
				m.Name, o.port)
			return
		}
	}
}

// openPorts are the ports that a rule of the firewall opens.
type openPorts struct {
	what, protocol, text string
	at                   hcl.Range
	ranges               []block.Ports
}

func (o openPorts) meets(other openPorts) bool {
	return o.protocol == other.protocol && slices.ContainsFunc(o.ranges, func(a block.Ports) bool {
		return slices.ContainsFunc(other.ranges, func(b block.Ports) bool { return a.First <= b.Last && b.First <= a.Last })
	})
}

// firewallPorts reports rules of a machine's firewall that open one port.
func firewallPorts(p *block.Plan, m *block.Machine) {
	if elsewhere(m) || unmanaged(m) {
		return
	}
	before := recipePorts(p)
	for _, o := range givenPorts(p, m) {
		i := slices.IndexFunc(before, o.meets)
		if i < 0 {
			before = append(before, o)
			continue
		}
		p.FailOn(m.Name, o.at, "two rules for one port",
			"On node %q %s opens a port of %s/%s already. Remove it here; the argument \"remote\" limits who may "+
				"connect.", m.Name,
			before[i].what, o.text, o.protocol)
	}
}

// recipePorts are those that the recipe opens on every machine.
func recipePorts(p *block.Plan) []openPorts {
	if p.Cluster == nil {
		return nil
	}
	out := []openPorts{{what: "the kubelet's rule", protocol: "tcp", ranges: []block.Ports{{First: 10250, Last: 10250}}}}
	if port := uint64(p.Cluster.Base.Network.Port); port != 0 {
		out = append(out, openPorts{what: "the rule of the pod network", protocol: "udp",
			ranges: []block.Ports{{First: port, Last: port}}})
	}
	return out
}

// givenPorts are those that the plan asks to open on a machine.
func givenPorts(p *block.Plan, m *block.Machine) []openPorts {
	var out []openPorts
	add := func(name, protocol, text string, at hcl.Range) {
		if ranges, why := block.PortRanges(text); why == "" {
			out = append(out, openPorts{fmt.Sprintf("the rule %q", name), protocol, text, at, ranges})
		}
	}
	b := m.Said["firewall"]
	if text := b.Text("node_ports"); text != "" {
		add("node_ports", "tcp", text, b.Args["node_ports"].At)
		add("node_ports_udp", "udp", text, b.Args["node_ports"].At)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Rules)) {
		if r := b.Rules[name]; r.Text("ports") != "" {
			add(name, cmp.Or(r.Text("protocol"), "tcp"), r.Text("ports"), r.At)
		}
	}
	if x, ok := exporter(p, m); ok {
		port, valid := x.Port(recipe.ExporterPort)
		if g, open := x.Args["remote"]; open && valid {
			add("windows_exporter", "tcp", strconv.Itoa(int(port)), g.At)
		}
	}
	return out
}

// programPorts reports programs of a node that cannot both have their port: those of its
// recipe, as the plan sets them, and services of step blocks, as far as their command lines
// say where they listen.
func programPorts(p *block.Plan, x *Expanded) {
	for i, o := range x.Ports {
		for _, before := range x.Ports[:i] {
			if o.Meets(before) {
				p.FailOn(x.Name, x.Range, "two programs on one port", "On node %q %s, so one of them could not start. Give one "+
					"another port in the kubelet, kube_proxy or windows_exporter block of the node or its profile.", x.Name,
					bothListen(before, o))
			}
		}
	}
	all := slices.Clip(x.Ports)
	for _, s := range x.Given {
		service, ok := kinds.Runs(s)
		if !ok {
			continue
		}
		for _, o := range recipe.PortsOf(service.Name, service.Command) {
			for _, before := range all {
				if o.Meets(before) {
					p.FailOn(x.Name, x.Origins[s.ID].At("command"), "two programs on one port",
						"On node %q %s, so one of them could not start. Give the service another port.", x.Name, bothListen(before, o))
				}
			}
			all = append(all, o)
		}
	}
}

func bothListen(a, b recipe.Port) string {
	return fmt.Sprintf("%s (%s) and %s (%s) listen on port %d/%s", a.Program, a.For, b.Program, b.For, b.Port, b.Protocol)
}
