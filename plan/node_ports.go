package plan

import (
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/steps/host"
)

// nodePorts is the range of ports of services of type NodePort, unless the plan says
// another (kubernetes cmd/kube-apiserver, --service-node-port-range).
var nodePorts = host.PortRange{Protocol: "tcp", First: 30000, Last: 32767}

// boundPort is a port of a program of the node.
type boundPort struct {
	program, protocol string
	port              uint16
}

// boundPorts are those that the programs of a node listen on (kubernetes
// pkg/cluster/ports).
func (w *settingWriter) boundPorts() []boundPort {
	if w.c.Cluster == nil {
		return nil
	}
	out := []boundPort{{"The kubelet", "tcp", 10248}, {"The kube-proxy", "tcp", 10249}, {"The kubelet", "tcp", 10250},
		{"The kube-proxy", "tcp", 10256}}
	if port := w.c.Cluster.Base.Network.Port; port != 0 {
		out = append(out, boundPort{"The pod network", "udp", uint16(port)}) //nolint:gosec // judged where it stands
	}
	return out
}

// portsOf are the ranges of a list that was judged, which may not be given.
func portsOf(g block.Setting) (out []host.PortRange) {
	if g.Value == cty.NilVal {
		return nil
	}
	for it := g.Value.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !e.IsNull() {
			if r, err := host.ParsePortRange(strings.ReplaceAll(e.AsString(), " ", "")); err == nil {
				out = append(out, r)
			}
		}
	}
	return out
}

// dynamicPorts holds the range against the ports that the node needs itself; false =
// something was reported as wrong.
func (w *settingWriter) dynamicPorts(g block.Setting, r host.PortRange) bool {
	for _, p := range w.boundPorts() {
		if p.protocol == r.Protocol && r.First <= p.port && p.port <= r.Last {
			w.c.FailOn(w.m.Name, g.At, "ports of the node",
				"%s of node %q has port %d, which any program could get before it starts. Let the dynamic ports begin after %d.",
				p.program, w.m.Name, p.port, p.port)
			return false
		}
	}
	want := nodePorts
	if list, why := block.PortRanges(w.all["firewall"].Text("node_ports")); why == "" && len(list) == 1 {
		want.First, want.Last = uint16(list[0].First), uint16(list[0].Last)
	}
	if w.c.Cluster == nil || r.First > want.Last || want.First > r.Last {
		return true
	}
	both := host.PortRange{Protocol: "tcp", First: max(r.First, want.First), Last: min(r.Last, want.Last)}
	for _, o := range portsOf(w.all["host"].Args["reserved_ports"]) {
		if o.Protocol == both.Protocol && o.First <= both.First && both.Last <= o.Last {
			return true
		}
	}
	w.c.WarnOn(w.m.Name, g.At, "node ports are given out", "Ports %s of node %q are for services of type NodePort, "+
		"and any program could get one of them. Add reserved_ports = [%q], or let the dynamic ports begin after %d.", both,
		w.m.Name, both, want.Last)
	return true
}
