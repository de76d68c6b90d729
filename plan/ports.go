package plan

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
)

// portSettings are the arguments of the host block about the ports that Windows gives
// to programs which ask for any.
var portSettings = []hostSetting{
	{attr: eval.Attr{Name: "dynamic_ports", Typ: cty.String, Doc: "TCP ports that programs get which ask for any, as each connection to the outside does, \"34000-65535\" (of Windows: 49152-65535)"},
		usual: cty.StringVal("34000-65535"),
		judge: (*settingJudge).dynamicPorts,
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			r, why := dynamicRange(g.value.AsString())
			if why != "" || !w.dynamicPorts(g, r) {
				return nil
			}
			return recipe.DynamicPorts(r)
		}},
	{attr: eval.Attr{Name: "reserved_ports", Typ: eval.Strings, Doc: "ports that no program gets which asks for any, \"30000-32767/tcp\""},
		judge: (*settingJudge).reservedPorts,
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			list := portsOf(g)
			for _, r := range list {
				for _, p := range w.boundPorts() {
					if p.protocol == r.Protocol && r.First <= p.port && p.port <= r.Last {
						w.c.FailOn(w.m.Name, g.at, "ports of the node", "%s of node %q has port %d/%s, and a program may not get a reserved port even if it asks for it. Leave it out of \"reserved_ports\".", p.program, w.m.Name, p.port, p.protocol)
						return nil
					}
				}
			}
			return recipe.ReservedPorts(list)
		}},
}

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
	if w.c.cluster == nil {
		return nil
	}
	out := []boundPort{{"The kubelet", "tcp", 10248}, {"The kube-proxy", "tcp", 10249}, {"The kubelet", "tcp", 10250}, {"The kube-proxy", "tcp", 10256}}
	if port := w.c.cluster.base.Network.Port; port != 0 {
		out = append(out, boundPort{"The pod network", "udp", uint16(port)}) //nolint:gosec // judged where it stands
	}
	return out
}

// dynamicRange reads a range of ports that Windows can give out; why says what is
// wrong with it.
func dynamicRange(text string) (r host.PortRange, why string) {
	list, why := portRanges(text)
	switch {
	case why != "":
		return r, why
	case len(list) != 1:
		return r, "it must be one range"
	}
	r = host.PortRange{Protocol: "tcp", First: uint16(list[0].first), Last: uint16(list[0].last)}
	if r.ValidDynamic() != nil {
		return r, fmt.Sprintf("Windows takes %d ports or more that begin at %d or higher", host.MinDynamicPorts, host.MinDynamicPort)
	}
	return r, ""
}

func (j *settingJudge) dynamicPorts(name string) {
	if text := j.Str(name); text != "" {
		if _, why := dynamicRange(text); why != "" {
			j.Fail(name, "invalid ports", "%q cannot be the dynamic ports: %s. Write for example \"34000-65535\".", text, why)
		}
	}
}

func (j *settingJudge) reservedPorts(name string) {
	var before []host.PortRange
	for i, text := range j.Strs(name) {
		r, err := host.ParsePortRange(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			j.FailAt(j.AtIndex(name, i), "invalid ports", "%q is not a port range. Write for example \"30000-32767/tcp\" or \"65330/udp\".", text)
			continue
		}
		for _, o := range before {
			if o.Protocol == r.Protocol && o.First <= r.Last && r.First <= o.Last {
				j.FailAt(j.AtIndex(name, i), "invalid ports", "%q has ports that %s has, too, and a port can be reserved once.", text, o)
				break
			}
		}
		before = append(before, r)
	}
}

// portsOf are the ranges of a list that was judged, which may not be given.
func portsOf(g setting) (out []host.PortRange) {
	if g.value == cty.NilVal {
		return nil
	}
	for it := g.value.ElementIterator(); it.Next(); {
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
func (w *settingWriter) dynamicPorts(g setting, r host.PortRange) bool {
	for _, p := range w.boundPorts() {
		if p.protocol == r.Protocol && r.First <= p.port && p.port <= r.Last {
			w.c.FailOn(w.m.Name, g.at, "ports of the node", "%s of node %q has port %d, which any program could get before it starts. Let the dynamic ports begin after %d.", p.program, w.m.Name, p.port, p.port)
			return false
		}
	}
	want := nodePorts
	if list, why := portRanges(w.all["firewall"].text("node_ports")); why == "" && len(list) == 1 {
		want.First, want.Last = uint16(list[0].first), uint16(list[0].last)
	}
	if w.c.cluster == nil || r.First > want.Last || want.First > r.Last {
		return true
	}
	both := host.PortRange{Protocol: "tcp", First: max(r.First, want.First), Last: min(r.Last, want.Last)}
	for _, o := range portsOf(w.all["host"].args["reserved_ports"]) {
		if o.Protocol == both.Protocol && o.First <= both.First && both.Last <= o.Last {
			return true
		}
	}
	w.c.WarnOn(w.m.Name, g.at, "node ports are given out", "Ports %s of node %q are for services of type NodePort, and any program could get one of them. Add reserved_ports = [%q], or let the dynamic ports begin after %d.", both, w.m.Name, both, want.Last)
	return true
}
