//go:build windows

package windows

import (
	"testing"

	"golang.org/x/sys/windows/registry"

	"nodejoin/steps/host"
)

// TestPortExcluded: Windows refuses the ports that it has reserved, for their protocol
// only.
func TestPortExcluded(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, `SOFTWARE\nodejoin-stand-in\ExcludedPorts`,
		registry.SET_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	const excluded = "tcp 61340-61342"
	if err := k.SetDWordValue(excluded, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		protocol string
		port     uint16
		want     bool
	}{{"tcp", 61339, false}, {"tcp", 61340, true}, {"tcp", 61342, true}, {"tcp", 61343, false}, {"udp", 61341, false}} {
		if have, err := h.PortExcluded(ctx, c.protocol, c.port); err != nil || have != c.want {
			t.Errorf("%d/%s: %v, %v; want %v", c.port, c.protocol, have, err, c.want)
		}
	}
	if err := k.DeleteValue(excluded); err != nil {
		t.Fatal(err)
	}
	if have, err := h.PortExcluded(ctx, "tcp", 61341); err != nil || have {
		t.Errorf("released: %v, %v", have, err)
	}
}

// TestDynamicPortsOfBoth: netsh reports the ports of IPv4 and of IPv6; WMI reports only one.
func TestDynamicPortsOfBoth(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	before, err := h.DynamicPorts(ctx, "udp")
	if err != nil {
		t.Fatal(err)
	}
	if want := (host.PortRange{Protocol: "udp", First: 49152, Last: 65535}); before != want {
		t.Errorf("the defaults: %s, want %s", before, want)
	}
	if err := h.SetDynamicPorts(ctx, host.PortRange{Protocol: "udp", First: 40000, Last: 50000}); err != nil {
		t.Fatal(err)
	}
	k, err := openKey(`HKLM\SOFTWARE\nodejoin-stand-in\DynamicPorts`, registry.QUERY_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for _, name := range []string{"ipv4 udp", "ipv6 udp"} {
		if have, _, err := k.GetIntegerValue(name); err != nil || have != 40000<<16|10001 {
			t.Errorf("%s: %#x, %v", name, have, err)
		}
	}
	if err := h.SetDynamicPorts(ctx, before); err != nil {
		t.Error(err)
	}
}
