package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
)

// openPort is a rule, as the others are checked against it.
type openPort struct {
	what, protocol string
	ranges         []block.Ports
}

func (w *settingWriter) firewall(b block.SettingBlock) {
	if w.windowsOnly("firewall", b.At) {
		return
	}
	f := recipe.Firewall{Remote: b.Texts("remote")}
	if g, ok := b.Args["manage"]; ok && g.Value.False() {
		f.Off = true
		for _, name := range []string{"remote", "node_ports"} {
			if o, ok := b.Args[name]; ok {
				w.c.FailOn(w.m.Name, o.At, "argument without effect", "With manage = false node %q gets no rules of nodejoin, "+
					"so the argument %q has no effect. Remove one of the two.", w.m.Name, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(b.Rules)) {
			w.c.FailOn(w.m.Name, b.Rules[name].At, "block without effect",
				"With manage = false node %q gets no rules of nodejoin. Remove this block, or manage = false.", w.m.Name)
		}
	}
	own := w.opened
	if g, ok := b.Args["remote"]; ok && len(own) == 0 && !f.Off {
		w.c.FailOn(w.m.Name, g.At, "argument without effect", "Node %q joins no cluster, so it has no rules of its own "+
			"that \"remote\" could be for. Give it to the allow blocks.", w.m.Name)
	}
	if text := b.Text("node_ports"); text != "" && !f.Off {
		own = w.open(&f, own, "node_ports", "tcp", text, f.Remote, b.Args["node_ports"].At)
		own = w.open(&f, own, "node_ports_udp", "udp", text, f.Remote, b.Args["node_ports"].At)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Rules)) {
		if r := b.Rules[name]; r.Text("ports") != "" && !f.Off {
			own = w.open(&f, own, name, cmp.Or(r.Text("protocol"), "tcp"), r.Text("ports"), r.Texts("remote"), r.At)
		}
	}
	w.out.Firewall, w.opened = f, own
}

// ownPorts are those that the recipe opens.
func (w *settingWriter) ownPorts() []openPort {
	if w.c.Cluster == nil {
		return nil
	}
	out := []openPort{{"the kubelet's rule", "tcp", []block.Ports{{First: 10250, Last: 10250}}}}
	if port := uint64(w.c.Cluster.Base.Network.Port); port != 0 {
		out = append(out, openPort{"the rule of the pod network", "udp", []block.Ports{{First: port, Last: port}}})
	}
	return out
}

// open adds a rule, unless another opens one of its ports.
func (w *settingWriter) open(f *recipe.Firewall, before []openPort, name, protocol, text string, remote []string,
	at hcl.Range) []openPort {
	ranges, why := block.PortRanges(text)
	if why != "" {
		return before // reported
	}
	for _, o := range before {
		for _, p := range ranges {
			if o.protocol == protocol && slices.ContainsFunc(o.ranges, func(q block.Ports) bool {
				return p.First <= q.Last &&
					q.First <= p.Last
			}) {
				w.c.FailOn(w.m.Name, at, "two rules for one port",
					"On node %q %s opens a port of %s/%s already. Remove it here; who may come is the argument \"remote\".", w.m.Name,
					o.what, text, protocol)
				return before
			}
		}
	}
	f.Rules = append(f.Rules, recipe.FirewallRule{Name: name, Protocol: protocol, Ports: strings.ReplaceAll(text, " ",
		""), Remote: remote, Source: w.c.Files.Place(at)})
	w.note(recipe.FirewallID(name), at)
	return append(before, openPort{fmt.Sprintf("the rule %q", name), protocol, ranges})
}
