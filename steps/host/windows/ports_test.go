//go:build windows

package windows

import (
	"testing"

	"golang.org/x/sys/windows/registry"

	"nodejoin/steps/host"
)

// TestDynamicPortsOfBoth: netsh is asked for IPv4 and for IPv6, of which WMI tells one.
func TestDynamicPortsOfBoth(t *testing.T) {
	onlyStandIn(t)
	h, ctx := newHost(t), context30(t)
	before, err := h.DynamicPorts(ctx, "udp")
	if err != nil {
		t.Fatal(err)
	}
	if want := (host.PortRange{Protocol: "udp", First: 49152, Last: 65535}); before != want {
		t.Errorf("of the factory: %s, want %s", before, want)
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
