package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
)

// firewallSpec is what of the Windows Firewall is nodejoin's.
var firewallSpec = &eval.Spec{Name: "firewall", One: true, Doc: "the rules of the Windows Firewall that a node gets", Attrs: []eval.Attr{
	{Name: "manage", Typ: cty.Bool, Doc: "false: someone else opens the ports of the node (10250/tcp, and 4789/udp for vxlan); rules that are there stay. Default true"},
	{Name: "remote", Typ: eval.Strings, Doc: "addresses and networks that the node's own rules are for; default any"},
	{Name: "node_ports", Typ: cty.String, Doc: "ports to open for services of type NodePort, \"30000-32767\"; default none, as Windows lets what HNS forwards pass"},
}, Blocks: []*eval.Spec{
	{Name: "allow", Labels: []string{"name"}, Doc: "a further port of the machine that is open", Attrs: []eval.Attr{
		{Name: "protocol", Typ: cty.String, Doc: "\"tcp\" (default) or \"udp\""},
		{Name: "ports", Typ: cty.String, Required: true, Doc: "ports and ranges, \"9182\" or \"80,8000-8010\""},
		{Name: "remote", Typ: eval.Strings, Doc: "addresses and networks that may come; default any"},
	}},
}}

func (j *settingJudge) firewall(ctx *hcl.EvalContext) {
	j.remote(j.Section)
	if text := j.Str("node_ports"); text != "" {
		if _, why := portRanges(text); why != "" {
			j.Fail("node_ports", "invalid ports", "%q cannot be a list of ports: %s.", text, why)
		}
	}
	j.rules = map[string]settingBlock{}
	for _, b := range j.Blocks.OfType("allow") {
		in := j.Scope.Section(firewallSpec.Child("allow"), b, ctx)
		settingName(in)
		if text := in.Str("ports"); text != "" {
			if _, why := portRanges(text); why != "" {
				in.Fail("ports", "invalid ports", "%q cannot be a list of ports: %s.", text, why)
			}
		}
		if p := in.Str("protocol"); p != "" && p != "tcp" && p != "udp" {
			in.Fail("protocol", "unknown value", "%q is nothing that %q can be. Use \"tcp\" or \"udp\".", p, "protocol")
		}
		j.remote(in)
		if _, again := j.rules[b.Labels[0]]; again {
			in.FailAt(b.DefRange, "duplicate block", "There is another allow block %q here. Rename one of them.", b.Labels[0])
		}
		j.rules[b.Labels[0]] = says(in)
		j.OK = j.OK && in.OK
	}
}

func (j *settingJudge) remote(s *eval.Section) {
	for i, r := range s.Strs("remote") {
		if r == "" || strings.Contains(r, ",") || !host.ValidAddresses(r) {
			s.FailAt(s.AtIndex("remote", i), "invalid address", "%q is neither an address nor a network, as in \"192.0.2.7\" or \"10.0.0.0/8\".", r)
		}
	}
}

// ports is a range.
type ports struct{ first, last uint64 }

// portRanges reads "80,8000-8010"; why says what is wrong with it.
func portRanges(text string) (out []ports, why string) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 16)
		last, err2 := strconv.ParseUint(to, 10, 16)
		switch {
		case err1 != nil || err2 != nil || first == 0:
			return nil, fmt.Sprintf("%q is neither a port from 1 to 65535 nor a range of them", part)
		case first > last:
			return nil, fmt.Sprintf("the range %q ends before it begins", part)
		}
		for _, p := range out {
			if first <= p.last && p.first <= last {
				return nil, fmt.Sprintf("%q is named twice", part)
			}
		}
		out = append(out, ports{first, last})
	}
	return out, ""
}

// openPort is a rule, as the others are held against it.
type openPort struct {
	what, protocol string
	ranges         []ports
}

func (w *settingWriter) firewall(b settingBlock) {
	if w.windowsOnly("firewall", b.at) {
		return
	}
	f := recipe.Firewall{Remote: b.texts("remote")}
	if g, ok := b.args["manage"]; ok && g.value.False() {
		f.Off = true
		for _, name := range []string{"remote", "node_ports"} {
			if o, ok := b.args[name]; ok {
				w.c.FailOn(w.m.Name, o.at, "argument without effect", "With manage = false node %q gets no rules of nodejoin, so the argument %q has no effect. Remove one of the two.", w.m.Name, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(b.rules)) {
			w.c.FailOn(w.m.Name, b.rules[name].at, "block without effect", "With manage = false node %q gets no rules of nodejoin. Remove this block, or manage = false.", w.m.Name)
		}
	}
	own := w.opened
	if g, ok := b.args["remote"]; ok && len(own) == 0 && !f.Off {
		w.c.FailOn(w.m.Name, g.at, "argument without effect", "Node %q joins no cluster, so it has no rules of its own that \"remote\" could be for. Give it to the allow blocks.", w.m.Name)
	}
	if text := b.text("node_ports"); text != "" && !f.Off {
		own = w.open(&f, own, "node_ports", "tcp", text, f.Remote, b.args["node_ports"].at)
		own = w.open(&f, own, "node_ports_udp", "udp", text, f.Remote, b.args["node_ports"].at)
	}
	for _, name := range slices.Sorted(maps.Keys(b.rules)) {
		if r := b.rules[name]; r.text("ports") != "" && !f.Off {
			own = w.open(&f, own, name, cmp.Or(r.text("protocol"), "tcp"), r.text("ports"), r.texts("remote"), r.at)
		}
	}
	w.out.Firewall, w.opened = f, own
}

// ownPorts are those that the recipe opens.
func (w *settingWriter) ownPorts() []openPort {
	if w.c.cluster == nil {
		return nil
	}
	out := []openPort{{"the kubelet's rule", "tcp", []ports{{10250, 10250}}}}
	if port := uint64(w.c.cluster.base.Network.Port); port != 0 {
		out = append(out, openPort{"the rule of the pod network", "udp", []ports{{port, port}}})
	}
	return out
}

// open adds a rule, unless another opens one of its ports.
func (w *settingWriter) open(f *recipe.Firewall, before []openPort, name, protocol, text string, remote []string, at hcl.Range) []openPort {
	ranges, why := portRanges(text)
	if why != "" {
		return before // reported
	}
	for _, o := range before {
		for _, p := range ranges {
			if o.protocol == protocol && slices.ContainsFunc(o.ranges, func(q ports) bool { return p.first <= q.last && q.first <= p.last }) {
				w.c.FailOn(w.m.Name, at, "two rules for one port", "On node %q %s opens a port of %s/%s already. Remove it here; who may come is the argument \"remote\".", w.m.Name, o.what, text, protocol)
				return before
			}
		}
	}
	f.Rules = append(f.Rules, recipe.FirewallRule{Name: name, Protocol: protocol, Ports: strings.ReplaceAll(text, " ", ""), Remote: remote, Source: w.c.Files.Place(at)})
	w.note(recipe.FirewallID(name), at)
	return append(before, openPort{fmt.Sprintf("the rule %q", name), protocol, ranges})
}
