package kinds_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// networkScenarios are those of networks, ports and firewall rules.
func networkScenarios() []scenario {
	vip := func(subnet string) steps.Spec {
		return stepstest.Spec("source_vip", "vip", &kinds.SourceVIP{Dir: `C:\var\lib\cni\networks`,
			Network: "flannel.4096", Subnet: subnet})
	}
	rule := &kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-kubelet", Direction: "in",
		Action: "allow", Protocol: "tcp", Ports: "10250", Enabled: true}}
	some := &kinds.FirewallRule{FirewallRule: rule.FirewallRule}
	some.Remote = "192.0.2.1, 10.0.0.0/255.0.0.0"
	dynamic := func(first uint16) steps.Spec {
		return stepstest.Spec("dynamic_ports", "ports", &kinds.DynamicPorts{Protocol: "tcp", First: first, Last: 65535})
	}
	outgoing := func(want uint16) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			if have, err := h.DynamicPorts(t.Context(), "tcp"); err != nil || have.First != want || have.Last != 65535 {
				t.Errorf("dynamic ports are %s, %v", have, err)
			}
		}
	}
	nodePorts := host.PortRange{Protocol: "tcp", First: 30000, Last: 32767}
	reserve := []steps.Spec{stepstest.Spec("reserved_ports", "node_ports",
		&kinds.ReservedPorts{Protocol: "tcp", First: 30000, Last: 32767}),
		stepstest.Spec("reserved_ports", "dns", &kinds.ReservedPorts{Protocol: "udp", First: 65330, Last: 65330})}
	reserved := func(t *testing.T, h host.Host) {
		for _, r := range []host.PortRange{nodePorts, {Protocol: "udp", First: 65330, Last: 65330}} {
			if have, err := h.PortsReserved(t.Context(), r); err != nil || !have {
				t.Errorf("%s are reserved: %v, %v", r, have, err)
			}
		}
	}

	return []scenario{
		{name: "hns network", list: []steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))},
			verify: lasting("Overlay")},
		{name: "hns network of another type",
			before: []steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))},
			list:   []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))}, verify: lasting("L2Bridge")},
		{name: "hns network that was there", drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "external", Type: "L2Bridge",
				Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"}))
		}, list: []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))}, verify: lasting("L2Bridge")},
		{name: "firewall fresh", list: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)}},
		{name: "firewall drifted", before: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)},
			drift: func(t *testing.T, h host.Host) {
				r := rule.FirewallRule
				r.Ports, r.Enabled = "1", false
				stepstest.Must(t, h.PutFirewallRule(t.Context(), r))
			},
			list: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)}},
		{name: "firewall for some", before: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)},
			list: []steps.Spec{stepstest.Spec("firewall_rule", "fw", some)}},
		{name: "firewall removed", before: []steps.Spec{stepstest.Spec("firewall_rule", "fw", rule)},
			list: []steps.Spec{stepstest.Spec("firewall_rule", "fw",
				&kinds.FirewallRule{FirewallRule: host.FirewallRule{Name: "nodejoin-kubelet"}, Absent: true})}},
		{name: "dynamic ports fresh", list: []steps.Spec{dynamic(34000)}, verify: outgoing(34000)},
		{name: "dynamic ports drifted", before: []steps.Spec{dynamic(34000)}, drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.SetDynamicPorts(t.Context(), host.PortRange{Protocol: "tcp", First: 20000, Last: 30000}))
		}, list: []steps.Spec{dynamic(34000)}, verify: outgoing(34000)},
		{name: "reserved ports fresh", list: reserve, verify: reserved},
		{name: "reserved ports drifted", before: reserve, drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.ReleasePorts(t.Context(), nodePorts))
		}, list: reserve, verify: reserved},
		{name: "reserved ports of another", drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.ReservePorts(t.Context(), nodePorts))
		}, list: reserve, verify: reserved},
		{name: "source VIP fresh", list: []steps.Spec{vip("10.244.3.0/24")},
			verify: holds(`C:\var\lib\cni\networks\flannel.4096\10.244.3.2`, "kube-proxy\r\nsource-vip")},
		{name: "source VIP moved", before: []steps.Spec{vip("10.244.3.0/24")}, drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\var\lib\cni\networks\flannel.4096\10.244.4.2`, "pod\r\neth0")
			stepstest.Put(t, h, `C:\var\lib\cni\networks\flannel.4096\last_reserved_ip.0`, "10.244.4.7")
		}, list: []steps.Spec{vip("10.244.4.0/24")}, verify: func(t *testing.T, h host.Host) {
			holds(`C:\var\lib\cni\networks\flannel.4096\10.244.4.3`, "kube-proxy\r\nsource-vip")(t, h)
			holds(`C:\var\lib\cni\networks\flannel.4096\last_reserved_ip.0`, "10.244.4.7")(t, h)
			if _, err := h.Stat(t.Context(), `C:\var\lib\cni\networks\flannel.4096\10.244.3.2`); err == nil {
				t.Error("the stale reservation is still there")
			}
		}},
		{name: "CNI configuration in the way", drift: func(t *testing.T, h host.Host) {
			for _, name := range []string{"0-containerd-nat.json", "05-other.conf", "10-flannel.conflist",
				"20-later.conf", "0.txt"} {
				stepstest.Put(t, h, `C:\etc\cni\net.d\`+name, name)
			}
		}, list: []steps.Spec{stepstest.Spec("cni_conf_first", "first",
			&kinds.CNIConfFirst{Path: `C:\etc\cni\net.d\10-flannel.conflist`})},
			verify: func(t *testing.T, h host.Host) {
				left, err := h.List(t.Context(), `C:\etc\cni\net.d`)
				stepstest.Must(t, err)
				var names []string
				for _, fi := range left {
					names = append(names, fi.Name)
				}
				if d := cmp.Diff([]string{"0.txt", "10-flannel.conflist", "20-later.conf"}, names); d != "" {
					t.Error(d)
				}
				f, err := h.Facts(t.Context())
				stepstest.Must(t, err)
				rec, err := record.Load(t.Context(), h, f)
				stepstest.Must(t, err)
				for _, name := range []string{"0-containerd-nat.json", "05-other.conf"} {
					if o := rec.Claims[record.File.Of(`C:\etc\cni\net.d\`+name)]; !o.Existed || len(o.Previous) == 0 {
						t.Errorf("the record does not hold %s: %+v", name, o)
					}
				}
			}},
		{name: "CNI configuration, no folder",
			list: []steps.Spec{stepstest.Spec("cni_conf_first", "first",
				&kinds.CNIConfFirst{Path: `C:\etc\cni\net.d\10-flannel.conflist`})}},
	}
}

func external(kind string, vni uint32) *kinds.HNSNetwork {
	return &kinds.HNSNetwork{Name: "External", Type: kind, Subnet: "192.168.255.0/30", Gateway: "192.168.255.1", VNI: vni}
}

// lasting checks that the network exists and survives a boot.
func lasting(kind string) func(*testing.T, host.Host) {
	return func(t *testing.T, h host.Host) {
		stepstest.Must(t, h.Reboot(t.Context()))
		n, err := h.HNSNetwork(t.Context(), "External")
		if err != nil || n.Type != kind || n.ManagementIP == "" || !slices.Equal(n.Subnets, []string{"192.168.255.0/30"}) {
			t.Errorf("network %+v, %v; want one of type %s", n, err, kind)
		}
	}
}
