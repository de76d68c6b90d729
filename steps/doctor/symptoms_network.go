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

// networkSymptoms are about the node's pod network.
var networkSymptoms = []symptom{
	{id: "network-adapter", severity: steps.SeverityError, os: "windows",
		why:  "pods get their adapters from this HNS network; a kubelet without it finds none, and no pod starts",
		look: missingNetwork},
	{id: "network-address", severity: steps.SeverityError, os: "windows",
		why: "flanneld waits for the network's management address (\"Waiting for the Network to be created\") and " +
			"writes no subnet before it has one", look: networkAddress},
	{id: "subnet-file", severity: steps.SeverityError,
		why: "the CNI plugin reads the node's pod network from this file; without it no pod starts, and with a " +
			"wrong one nobody routes to the pods", look: subnetFileSymptom},
	{id: "stale-subnet", severity: steps.SeverityError,
		why: "a node that joined again has another pod network; answers to kube-proxy's address in the old one do " +
			"not come back", look: staleSubnet},
	{id: "outbound-exceptions", severity: steps.SeverityError, os: "windows",
		why: "pods reach each other and services only without address translation, and the outside only with it. " +
			"Try TCP: Windows pods have no rules for ICMP, so a ping proves nothing",
		look: outboundExceptions},
	{id: "cni-other", severity: steps.SeverityError,
		why: "the runtime takes the first CNI configuration of its folder by name: new pods get the network of that " +
			"one, and no error says so", look: otherCNIConf},
	{id: "mac-spoofing", severity: steps.SeverityNote, os: "windows",
		why: "in an L2 bridge each pod has a hardware address of its own, whose packets a hypervisor drops unless " +
			"the virtual machine's adapters allow them (Hyper-V: MAC address spoofing)", look: macSpoofing},
}

// network is an HNS network of the plan whose name is known.
type network struct {
	name, service string   // service uses it, or makes it
	by            []string // the step that makes it; none = the service does
}

// networks are the HNS networks that the node's services use, and those that its gates wait for.
func (x *diagnosis) networks() (out []network) {
	ids, made := of[*kinds.HNSNetwork](x)
	for i, n := range made {
		if n.Service != "" {
			out = append(out, network{n.Name, n.Service, ids[i : i+1]})
		}
	}
	_, awaited := of[*kinds.HNSNetworkReady](x)
	for _, n := range awaited {
		out = append(out, network{n.Name, n.Service, nil})
	}
	return slices.DeleteFunc(out, func(n network) bool { return steps.HasRef(n.name) })
}

// remedy says how a network comes back.
func (n network) remedy() string {
	if n.by != nil {
		return "apply again: that makes it again and restarts the service that uses it"
	}
	return "restart the service that makes it; if it stays away, its log says why"
}

// again names the service of a gate, to be restarted.
func again(service string) []string {
	if service == "" {
		return nil
	}
	return []string{service}
}

// hnsNetwork reads a network; there is false if it is absent.
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
		n, there, err := x.hnsNetwork(ctx, want.name)
		switch {
		case err != nil:
			return out, err
		case !there:
			out = append(out,
				finding{observed: observed{"there is no HNS network " + want.name, want.remedy()}, fix: want.by,
					restart: again(want.service)})
		case n.ManagementIP != "" && !slices.ContainsFunc(adapters, func(a host.Adapter) bool {
			return slices.ContainsFunc(a.Prefixes(), func(p netip.Prefix) bool { return p.Addr().String() == n.ManagementIP })
		}):
			out = append(out,
				finding{observed: observed{fmt.Sprintf("no adapter of the machine has %s, the address of HNS "+
					"network %s", n.ManagementIP, n.Name),
					"the machine's address has changed: restore it, or apply the plan with the new one"}})
		}
	}
	return out, nil
}

func networkAddress(ctx context.Context, x *diagnosis) (out []finding, err error) {
	for _, want := range x.networks() {
		n, there, err := x.hnsNetwork(ctx, want.name)
		if err != nil {
			return out, err
		}
		if there && n.ManagementIP == "" {
			out = append(out,
				finding{observed: observed{fmt.Sprintf("HNS network %s has no management address", n.Name),
					"restart the service that makes it"}, restart: again(want.service)})
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
				finding{observed: observed{fmt.Sprintf(format, args...), "restart flanneld, which writes it"},
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

// vipFiles are where microsoft/SDN's scripts for Windows nodes keep an address, which they use again after
// a rejoin (Kubernetes/windows/helper.psm1, GetSourceVip).
var vipFiles = []string{`C:\k\SourceVip.json`, `C:\k\SourceVipRequest.json`}

func staleSubnet(ctx context.Context, x *diagnosis) (out []finding, err error) {
	if x.c.Node == nil || x.c.Node.PodCIDR == "" {
		return nil, asked(x.c.NodeWhy)
	}
	subnet, err := netip.ParsePrefix(x.c.Node.PodCIDR)
	if err != nil {
		return nil, fmt.Errorf("the Node's pod network %q is not a network", x.c.Node.PodCIDR)
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
				finding{observed{fmt.Sprintf("%s is reserved as kube-proxy's source address, outside of the Node's "+
					"pod network %s", kinds.JoinAddrs(stale), subnet),
					"apply the plan, which reserves another for kube-proxy"}, fix, nil})
		}
	}
	vip, err := x.proxySource(ctx)
	if err != nil {
		return out, err
	}
	if a, err := netip.ParseAddr(vip); err == nil && !subnet.Contains(a) {
		out = append(out,
			finding{observed{fmt.Sprintf("kube-proxy sends from %s, outside of the Node's pod network %s", a, subnet),
				"apply the plan, which gives it an address of that network"}, fix, nil})
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
			finding{observed: observed{fmt.Sprintf("%s is left from an earlier node, with addresses outside of the "+
				"Node's pod network %s", path, subnet), "remove it; nodejoin did not make it, so it leaves it alone"}})
	}
	return out, nil
}

// proxySource is kube-proxy's configured source address; "" if it has none.
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
		err = nil // kube-proxy-name reports it
	}
	flag, _ := host.Flag(have.Command, "source-vip")
	return cmp.Or(flag, config.Winkernel.SourceVip), err
}

// strangeAddress reports whether a JSON text names addresses or networks, but none in the subnet. What
// cannot be read is strange.
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
			out = append(out, finding{observed{fmt.Sprintf("%s is not JSON (%v; JSON has no comments)", f.Path, broken),
				"apply the plan, which rewrites it"}, []string{ids[i]}, nil})
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
			what = append(what, "also excepts "+strings.Join(more, ", ")+", from where pods get no answers")
		}
		if len(what) > 0 {
			out = append(out,
				finding{observed{f.Path + " " + strings.Join(what, ", and "),
					"apply the plan, then recreate running pods, which keep the old settings"}, []string{ids[i]}, nil})
		}
	}
	return out, nil
}

// exceptionsOf returns the networks that a CNI configuration's policy OutBoundNAT leaves alone:
// ExceptionList to HNS v1, Exceptions to v2 (containernetworking plugins, pkg/hns/netconf.go). ok is false
// where there is no such policy.
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
					"apply the plan, which removes it until the node leaves; recreate pods that started since"},
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
		n, there, err := x.hnsNetwork(ctx, want.name)
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
				"is an L2 bridge; what the hypervisor allows cannot be seen from inside", about, n.Name),
				"if pods have no connection, allow MAC address spoofing for the virtual machine's adapters"}}}, nil
		}
	}
	return nil, nil
}
