package block

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps/host"
)

// firewallSpec is the part of the Windows Firewall that nodejoin manages.
var firewallSpec = &eval.Spec{Name: "firewall", One: true, Doc: "the rules of the Windows Firewall that a node gets",
	Attrs: []eval.Attr{
		{Name: "manage", Typ: cty.Bool, Doc: "false: someone else opens the ports of the node (10250/tcp, and 4789/udp " +
			"for vxlan); rules that are there stay. Default true"},
		{Name: "remote", Typ: eval.Strings, Doc: "addresses and networks that the node's own rules are for; default any"},
		{Name: "node_ports", Typ: cty.String, Doc: "ports to open for services of type NodePort, \"30000-32767\"; default " +
			"none, as Windows lets what HNS forwards pass"},
		keepAttr,
	}, Blocks: []*eval.Spec{
		{Name: "allow", Labels: []string{"name"}, Doc: "a further port of the machine that is open", Attrs: []eval.Attr{
			{Name: "protocol", Typ: cty.String, Doc: "\"tcp\" (default) or \"udp\""},
			{Name: "ports", Typ: cty.String, Required: true, Doc: "ports and ranges, \"9182\" or \"80,8000-8010\""},
			{Name: "remote", Typ: eval.Strings, Doc: "addresses and networks that may connect; default any"},
			keepAttr,
		}},
	}}

func (j *settingJudge) firewall(ctx *hcl.EvalContext) {
	j.remote(j.Section)
	if text := j.Str("node_ports"); text != "" {
		if _, why := PortRanges(text); why != "" {
			j.Fail("node_ports", "invalid ports", "%q cannot be a list of ports: %s.", text, why)
		}
	}
	j.rules = map[string]SettingBlock{}
	for _, b := range j.Blocks.OfType("allow") {
		in := j.Scope.Section(firewallSpec.Child("allow"), b, ctx)
		settingName(in)
		if text := in.Str("ports"); text != "" {
			if _, why := PortRanges(text); why != "" {
				in.Fail("ports", "invalid ports", "%q cannot be a list of ports: %s.", text, why)
			}
		}
		if p := in.Str("protocol"); p != "" && p != "tcp" && p != "udp" {
			in.Fail("protocol", "unknown value", "%q is not a value of %q. Use \"tcp\" or \"udp\".", p, "protocol")
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
			s.FailAt(s.AtIndex("remote", i), "invalid address",
				"%q is neither an address nor a network, as in \"192.0.2.7\" or \"10.0.0.0/8\".", r)
		}
	}
}

// Ports is a range of ports.
type Ports struct{ First, Last uint64 }

// PortRanges reads "80,8000-8010"; why says what is wrong with it.
func PortRanges(text string) (out []Ports, why string) {
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
			if first <= p.Last && p.First <= last {
				return nil, fmt.Sprintf("%q is named twice", part)
			}
		}
		out = append(out, Ports{first, last})
	}
	return out, ""
}
