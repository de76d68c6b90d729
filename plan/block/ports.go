package block

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps/host"
)

// portSettings are the arguments of the host block about the ports that Windows gives
// to programs which ask for any.
var portSettings = []hostSetting{
	{Attr: eval.Attr{Name: "dynamic_ports", Typ: cty.String, Doc: "TCP ports for programs that ask for any port, " +
		"as outgoing connections do, \"34000-65535\" (Windows default: 49152-65535)"},
		Usual: cty.StringVal("34000-65535"),
		judge: (*settingJudge).dynamicPorts},
	{Attr: eval.Attr{Name: "reserved_ports", Typ: eval.Strings,
		Doc: "ports that are never given to programs that ask for any port, \"30000-32767/tcp\""},
		judge: (*settingJudge).reservedPorts},
}

// DynamicRange reads a range of ports that Windows can give out; why says what is
// wrong with it.
func DynamicRange(text string) (r host.PortRange, why string) {
	list, why := PortRanges(text)
	switch {
	case why != "":
		return r, why
	case len(list) != 1:
		return r, "it must be one range"
	}
	r = host.PortRange{Protocol: "tcp", First: uint16(list[0].First), Last: uint16(list[0].Last)}
	if r.ValidDynamic() != nil {
		return r, fmt.Sprintf("Windows takes %d or more ports that start at %d or higher", host.MinDynamicPorts,
			host.MinDynamicPort)
	}
	return r, ""
}

// ReservedPorts returns the ranges of the argument reserved_ports; those that are wrong
// were reported.
func ReservedPorts(g Setting) (out []host.PortRange) {
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

func (j *settingJudge) dynamicPorts(name string) {
	if text := j.Str(name); text != "" {
		if _, why := DynamicRange(text); why != "" {
			j.Fail(name, "invalid ports", "%q cannot be the dynamic ports: %s. Write for example \"34000-65535\".", text, why)
		}
	}
}

func (j *settingJudge) reservedPorts(name string) {
	var before []host.PortRange
	for i, text := range j.Strs(name) {
		r, err := host.ParsePortRange(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			j.FailAt(j.AtIndex(name, i), "invalid ports",
				"%q is not a port range. Write for example \"30000-32767/tcp\" or \"65330/udp\".", text)
			continue
		}
		for _, o := range before {
			if o.Protocol == r.Protocol && o.First <= r.Last && r.First <= o.Last {
				j.FailAt(j.AtIndex(name, i), "invalid ports", "%q has ports that %s also has, and a port can be reserved "+
					"only once.",
					text, o)
				break
			}
		}
		before = append(before, r)
	}
}
