package steps_test

import (
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// TestHNSNetworkOfOthers: a network that somebody else has made is used where it is of
// the type, refused where it is not, and left alone by leave.
func TestHNSNetworkOfOthers(t *testing.T) {
	h := openHost(t, "windows")
	must(t, h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "External", Type: "L2Bridge", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"}))
	r := apply(t, h, memory{}, []steps.Spec{spec("hns_network", "n", external("Overlay", 9999))})
	if r.Err == nil || !strings.Contains(r.Err.Detail, "nodejoin did not make, is of type L2Bridge and not Overlay") {
		t.Errorf("a foreign network of another type: %v", r.Err)
	}
	applied(t, h, memory{}, []steps.Spec{spec("hns_network", "n", external("L2Bridge", 0))})
	must(t, left(t, h))
	if _, err := h.HNSNetwork(t.Context(), "External"); err != nil {
		t.Errorf("after leave: %v", err)
	}
}

func TestHNSNetworkArguments(t *testing.T) {
	for want, n := range map[string]*steps.HNSNetwork{
		"needs a name":           {Type: "L2Bridge", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"},
		"neither Overlay nor":    {Name: "x", Type: "NAT", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"},
		"is no network with the": {Name: "x", Type: "L2Bridge", Subnet: "192.168.255.0/30", Gateway: "192.168.254.1"},
		"an Overlay has a vni":   {Name: "x", Type: "Overlay", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"},
	} {
		r := apply(t, openHost(t, "windows"), memory{}, []steps.Spec{spec("hns_network", "n", n)})
		if r.Err == nil || !strings.Contains(r.Err.Error(), want) {
			t.Errorf("%+v: %v, want %q", n, r.Err, want)
		}
	}
}
