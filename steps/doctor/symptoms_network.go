package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// networkSymptoms: the pod network of the node.
var networkSymptoms = []symptom{
	{id: "network-adapter", severity: steps.SeverityError, os: "windows",
		why:  "pods get their adapters from this HNS network; a kubelet without it finds none, and no pod starts",
		look: missingNetwork},
	{id: "network-address", severity: steps.SeverityError, os: "windows",
		why: "flanneld waits for the network's management address (\"Waiting for the Network to be created\") and " +
			"writes no subnet before it has one", look: networkAddress},
	{id: "subnet-file", severity: steps.SeverityError,
		why: "the CNI plugin reads the node's pod network from this file; without it no pod starts, with a wrong " +
			"one pods have addresses that nobody routes here", look: subnetFileSymptom},
	{id: "stale-subnet", severity: steps.SeverityError,
		why: "a node that has joined again has another pod network; kube-proxy with an address of the old one sends " +
			"from where no answer comes back", look: staleSubnet},
	{id: "outbound-exceptions", severity: steps.SeverityError, os: "windows",
		why: "pods reach each other and services without address translation only where it is excepted, and the " +
			"outside only where it is not. A ping proves nothing: Windows pods have no rules for ICMP, so try TCP",
		look: outboundExceptions},
	{id: "cni-other", severity: steps.SeverityError,
		why: "the runtime takes the first CNI configuration of its folder by name: new pods get the network of that " +
			"one, and no error says so", look: otherCNIConf},
	{id: "mac-spoofing", severity: steps.SeverityNote, os: "windows",
		why: "in an L2 bridge each pod sends with a hardware address of its own, which a hypervisor drops unless " +
			"the virtual machine's adapters allow it (Hyper-V: MAC address spoofing)", look: macSpoofing},
}

// networks are those that the node's gates wait for, without the ones that are not
// named yet.
func (x *diagnosis) networks() []*kinds.HNSNetworkReady {
	_, list := of[*kinds.HNSNetworkReady](x)
	return slices.DeleteFunc(list, func(n *kinds.HNSNetworkReady) bool { return steps.HasRef(n.Name) })
}

// again names the service of a gate, to be started anew.
func again(service string) []string {
	if service == "" {
		return nil
	}
	return []string{service}
}

// hnsNetwork reads a network; there is false where it is absent.
func (x *diagnosis) hnsNetwork(ctx context.Context, name string) (n host.HNSNetwork, there bool, err error) {
	n, err = x.r.HNSNetwork(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return n, false, nil
	}
	return n, err == nil, err
}

func missingNetwork(ctx context.Context, x *diagnosis) (out []finding, err error) {
	adapters, err := x.r.Adapters(ctx)
	if err != nil {
		return nil, err
	}
	for _, want := range x.networks() {
		n, there, err := x.hnsNetwork(ctx, want.Name)
		switch {
		case err != nil:
			return out, err
		case !there:
			out = append(out,
				finding{observed: observed{"there is no HNS network " + want.Name,
					"start the service anew that makes it; where it does not come, its log says why"}, restart: again(want.Service)})
		case n.ManagementIP != "" && !slices.ContainsFunc(adapters, func(a host.Adapter) bool {
			return slices.ContainsFunc(a.Prefixes(), func(p netip.Prefix) bool { return p.Addr().String() == n.ManagementIP })
		}):
			out = append(out,
				finding{observed: observed{fmt.Sprintf("no adapter of the machine has %s, the address of HNS "+
					"network %s", n.ManagementIP, n.Name),
					"the machine's address has changed: give it back its own, or apply the plan with the new one"}})
		}
	}
	return out, nil
}

func networkAddress(ctx context.Context, x *diagnosis) (out []finding, err error) {
	for _, want := range x.networks() {
		n, there, err := x.hnsNetwork(ctx, want.Name)
		if err != nil {
			return out, err
		}
		if there && n.ManagementIP == "" {
			out = append(out,
				finding{observed: observed{fmt.Sprintf("HNS network %s has no management address", n.Name),
					"start the service anew that makes it"}, restart: again(want.Service)})
		}
	}
	return out, nil
}

// subnetNames are the lines of flannel's subnet.env (flannel pkg/subnet/subnet.go, WriteSubnetFile).
var subnetNames = []string{"FLANNEL_NETWORK", "FLANNEL_SUBNET", "FLANNEL_MTU", "FLANNEL_IPMASQ"}

func subnetFileSymptom(ctx context.Context, x *diagnosis) (out []finding, err error) {
	_, list := of[*kinds.FileReady](x)
	for _, want := range list {
		if !strings.HasPrefix(want.Contains, "FLANNEL_SUBNET") {
			continue
		}
		found := func(format string, args ...any) {
			out = append(out,
				finding{observed: observed{fmt.Sprintf(format, args...), "start flanneld anew, which writes it"},
					restart: again(want.Service)})
		}
		b, there, err := x.read(ctx, want.Path)
		switch {
		case err != nil:
			return out, err
		case !there:
			found("%s is missing", want.Path)
			continue
		}
		values := map[string]string{}
		for line := range strings.Lines(string(b)) {
			name, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			values[name] = v
		}
		var lack []string
		for _, name := range subnetNames {
			if values[name] == "" {
				lack = append(lack, name)
			}
		}
		if len(lack) > 0 {
			found("%s lacks %s", want.Path, strings.Join(lack, ", "))
			continue
		}
		if x.c.Node == nil || x.c.Node.PodCIDR == "" {
			if x.c.NodeWhy != "" {
				return out, asked(x.c.NodeWhy)
			}
			continue
		}
		have, err := netip.ParsePrefix(values["FLANNEL_SUBNET"])
		if err != nil || have.Masked().String() != x.c.Node.PodCIDR {
			found("%s says %s, and the Node's pod network is %s", want.Path, values["FLANNEL_SUBNET"], x.c.Node.PodCIDR)
		}
	}
	return out, nil
}

// vipFiles are what the scripts for Windows nodes of microsoft/SDN keep an address in
// and take it from again after a rejoin (Kubernetes/windows/helper.psm1, GetSourceVip).
var vipFiles = []string{`C:\k\SourceVip.json`, `C:\k\SourceVipRequest.json`}

func staleSubnet(ctx context.Context, x *diagnosis) (out []finding, err error) {
	if x.c.Node == nil || x.c.Node.PodCIDR == "" {
		return nil, asked(x.c.NodeWhy)
	}
	subnet, err := netip.ParsePrefix(x.c.Node.PodCIDR)
	if err != nil {
		return nil, fmt.Errorf("the Node's pod network %q is none", x.c.Node.PodCIDR)
	}
	fix := x.using(x.podCIDR)
	if _, proxy, ok := x.service("kube-proxy"); ok && !slices.Contains(fix, proxy) {
		fix = append(fix, proxy)
	}
	_, list := of[*kinds.SourceVIP](x)
	for _, v := range list {
		if steps.HasRef(v.Dir + v.Network) {
			continue
		}
		s, err := v.Observe(ctx, x.r, x.e)
		if err != nil {
			return out, err
		}
		if _, stale := v.Diff(s, subnet.Masked()); len(stale) > 0 {
			out = append(out,
				finding{observed{fmt.Sprintf("%s is reserved as source address of kube-proxy, outside of the Node's "+
					"pod network %s", kinds.JoinAddrs(stale), subnet),
					"apply the plan, which reserves another and tells kube-proxy"}, fix, nil})
		}
	}
	vip, err := x.proxySource(ctx)
	if err != nil {
		return out, err
	}
	if a, err := netip.ParseAddr(vip); err == nil && !subnet.Contains(a) {
		out = append(out,
			finding{observed{fmt.Sprintf("kube-proxy sends from %s, outside of the Node's pod network %s", a, subnet),
				"apply the plan, which tells it an address of that network"}, fix, nil})
	}
	if x.e.Facts.OS != "windows" {
		return out, nil
	}
	for _, path := range vipFiles {
		b, there, err := x.read(ctx, path)
		if err != nil {
			return out, err
		}
		if _, _, own := x.file(path); own || !there || !strangeAddress(b, subnet) {
			continue
		}
		out = append(out,
			finding{observed: observed{fmt.Sprintf("%s is there from an earlier node, with addresses outside of the "+
				"Node's pod network %s", path, subnet), "remove it; nodejoin did not make it, and deletes nothing of others"}})
	}
	return out, nil
}

// proxySource is the source address that kube-proxy is told; "" where it is told none.
func (x *diagnosis) proxySource(ctx context.Context) (string, error) {
	have, there, err := x.registered(ctx, "kube-proxy")
	if err != nil || !there {
		return "", err
	}
	var config struct {
		Winkernel struct {
			SourceVip string `json:"sourceVip"`
		} `json:"winkernel"`
	}
	if _, err = x.configOf(ctx, have, "config", &config); errors.Is(err, errNotYAML) {
		err = nil // told with kube-proxy's name
	}
	flag, _ := host.Flag(have.Command, "source-vip")
	return cmp.Or(flag, config.Winkernel.SourceVip), err
}

// strangeAddress tells that a text of JSON names an address or network, and none that
// belongs to the subnet. What cannot be read is strange.
func strangeAddress(b []byte, subnet netip.Prefix) bool {
	v, err := jsonOf(b)
	if err != nil {
		return true
	}
	any, near := false, false
	steps.MapStrings(v, func(s string) string {
		if p, err := netip.ParsePrefix(s); err == nil {
			any, near = true, near || subnet.Overlaps(p)
		} else if a, err := netip.ParseAddr(s); err == nil {
			any, near = true, near || subnet.Contains(a)
		}
		return s
	})
	return any && !near
}

func outboundExceptions(ctx context.Context, x *diagnosis) (out []finding, err error) {
	ids, list := of[*kinds.File](x)
	for i, f := range list {
		want, ok := exceptionsOf([]byte(f.Content))
		if !ok {
			continue
		}
		b, there, err := x.read(ctx, f.Path)
		if err != nil {
			return out, err
		}
		if !there {
			out = append(out, finding{observed{f.Path + " is missing", "apply the plan, which writes it"},
				[]string{ids[i]}, nil})
			continue
		}
		var broken *json.SyntaxError
		if _, err := jsonOf(b); errors.As(err, &broken) {
			out = append(out, finding{observed{fmt.Sprintf("%s is no JSON (%v; JSON has no comments)", f.Path, broken),
				"apply the plan, which writes it anew"}, []string{ids[i]}, nil})
			continue
		}
		have, _ := exceptionsOf(b)
		var lack, more []string
		for _, n := range want {
			if !slices.Contains(have, n) && !steps.HasRef(n) {
				lack = append(lack, n)
			}
		}
		for _, n := range have {
			if !slices.Contains(want, n) {
				more = append(more, n)
			}
		}
		var what []string
		if len(lack) > 0 {
			what = append(what, "does not except "+strings.Join(lack, ", ")+" from address translation")
		}
		if len(more) > 0 && !slices.ContainsFunc(want, steps.HasRef) {
			what = append(what, "excepts "+strings.Join(more, ", ")+" besides, from where pods get no answers")
		}
		if len(what) > 0 {
			out = append(out,
				finding{observed{f.Path + " " + strings.Join(what, ", and "),
					"apply the plan; pods that run keep what they have until they are made anew"}, []string{ids[i]}, nil})
		}
	}
	return out, nil
}

// exceptionsOf are the networks that the policy OutBoundNAT of a CNI configuration
// leaves alone: ExceptionList to HNS v1, Exceptions to v2 (containernetworking plugins,
// pkg/hns/netconf.go). ok is false where there is no such policy.
func exceptionsOf(b []byte) (list []string, ok bool) {
	if !strings.Contains(string(b), "OutBoundNAT") {
		return nil, false
	}
	v, err := jsonOf(b)
	if err != nil {
		return nil, false
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if v["Type"] == "OutBoundNAT" {
				ok = true
				settings, _ := v["Settings"].(map[string]any)
				for _, nets := range []any{v["ExceptionList"], settings["Exceptions"], settings["ExceptionList"]} {
					nets, _ := nets.([]any)
					for _, n := range nets {
						if s, isText := n.(string); isText {
							list = append(list, s)
						}
					}
				}
				return
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return list, ok
}

func otherCNIConf(ctx context.Context, x *diagnosis) (out []finding, err error) {
	ids, list := of[*kinds.CNIConfFirst](x)
	for i, f := range list {
		before, err := f.Before(ctx, x.r, x.e.Facts.OS)
		if err != nil {
			return out, err
		}
		for _, path := range before {
			out = append(out,
				finding{observed{fmt.Sprintf("%s is read in place of %s", path, host.Base(x.e.Facts.OS, f.Path)),
					"apply the plan, which removes it (a leave puts it back); make pods anew that started meanwhile"},
					[]string{ids[i]}, nil})
		}
	}
	return out, nil
}

const biosKey = `HKLM\HARDWARE\DESCRIPTION\System\BIOS`

// virtualNames are parts of the product names and makers of virtual machines, in lower case.
var virtualNames = []string{"virtual machine", "vmware", "virtualbox", "kvm", "qemu", "standard pc", "hvm domu",
	"bochs"}

func macSpoofing(ctx context.Context, x *diagnosis) ([]finding, error) {
	for _, want := range x.networks() {
		n, there, err := x.hnsNetwork(ctx, want.Name)
		if err != nil {
			return nil, err
		}
		if !there || !strings.EqualFold(n.Type, "L2Bridge") {
			continue
		}
		var names []string
		for _, value := range []string{"SystemManufacturer", "SystemProductName"} {
			v, _, err := host.LookupRegistry(ctx, x.r, biosKey, value)
			if err != nil {
				return nil, err
			}
			if v.String != "" {
				names = append(names, v.String)
			}
		}
		about := strings.Join(names, " ")
		if slices.ContainsFunc(virtualNames, func(v string) bool { return strings.Contains(strings.ToLower(about), v) }) {
			return []finding{{observed: observed{fmt.Sprintf("the machine is virtual (%s), and its pod network %s "+
				"is an L2 bridge; what the hypervisor lets through cannot be seen from inside", about, n.Name),
				"allow MAC address spoofing for the virtual machine's adapters, where pods have no connection"}}}, nil
		}
	}
	return nil, nil
}
