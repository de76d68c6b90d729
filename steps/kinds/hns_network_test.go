package kinds_test

import (
	"context"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

// TestHNSNetworkOfOthers: a network that somebody else has made is used where it is of
// the type, refused where it is not, and left alone by leave.
func TestHNSNetworkOfOthers(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Must(t, h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "External", Type: "L2Bridge",
		Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"}))
	r := stepstest.Apply(t, h, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))})
	if r.Err == nil || !strings.Contains(r.Err.Detail, "nodejoin did not make, is of type L2Bridge and not Overlay") {
		t.Errorf("a foreign network of another type: %v", r.Err)
	}
	stepstest.Applied(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))})
	stepstest.Must(t, left(t, h))
	if _, err := h.HNSNetwork(t.Context(), "External"); err != nil {
		t.Errorf("after leave: %v", err)
	}
}

func TestHNSNetworkArguments(t *testing.T) {
	for want, n := range map[string]*kinds.HNSNetwork{
		"needs a name":              {Type: "L2Bridge", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"},
		"neither Overlay nor":       {Name: "x", Type: "NAT", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"},
		"is not a network with the": {Name: "x", Type: "L2Bridge", Subnet: "192.168.255.0/30", Gateway: "192.168.254.1"},
		"an Overlay has a vni":      {Name: "x", Type: "Overlay", Subnet: "192.168.255.0/30", Gateway: "192.168.255.1"},
	} {
		r := stepstest.Apply(t, stepstest.OpenHost(t, "windows"), stepstest.Memory{},
			[]steps.Spec{stepstest.Spec("hns_network", "n", n)})
		if r.Err == nil || !strings.Contains(r.Err.Error(), want) {
			t.Errorf("%+v: %v, want %q", n, r.Err, want)
		}
	}
}

// TestHNSNetworkAdapter: the switch is made on the adapter with the node's address; one that
// has a switch already is left to HNS.
func TestHNSNetworkAdapter(t *testing.T) {
	for _, c := range []struct {
		address, want string // adapter; "!" = refused
		adapters      []host.Adapter
	}{
		{"", "Ethernet", nil},
		{"10.0.7.22", "Storage",
			[]host.Adapter{{Name: "Ethernet", Addresses: []string{"192.0.2.10/24"}, Gateway: true},
				{Name: "Storage", Addresses: []string{"10.0.7.22/16"}}}},
		{"10.0.7.22", "", []host.Adapter{{Name: "vEthernet (Storage)", Addresses: []string{"10.0.7.22/16"}}}},
		{"10.0.7.23", "!", []host.Adapter{{Name: "Ethernet", Addresses: []string{"10.0.7.22/16"}}}},
	} {
		s := stepstest.NewSurvey(t)
		s.Adapters(c.adapters...)
		h := &adapterHost{Host: s.Open()}
		n := external("L2Bridge", 0)
		n.Address = c.address
		r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("hns_network", "n", n)})
		switch {
		case c.want == "!" && (r.Err == nil || !strings.Contains(r.Err.Detail, "has 10.0.7.23")):
			t.Errorf("%+v: %v", c, r.Err)
		case c.want != "!" && (r.Err != nil || h.on != c.want):
			t.Errorf("%+v: made on %q, %v", c, h.on, r.Err)
		}
	}
}

type adapterHost struct {
	host.Host
	on string
}

func (h *adapterHost) CreateHNSNetwork(ctx context.Context, n host.HNSNetworkConfig) error {
	h.on = n.Adapter
	return h.Host.CreateHNSNetwork(ctx, n)
}

// TestPreflightSubnet: the network of the node's address is known to later steps, on
// whichever adapter that is.
func TestPreflightSubnet(t *testing.T) {
	adapters := []host.Adapter{{Name: "Ethernet", Addresses: []string{"192.0.2.10/24"}, Gateway: true},
		{Name: "Storage", Addresses: []string{"10.0.7.22/16"}}}
	for address, want := range map[string]string{"": "192.0.2.0/24", "192.0.2.10": "192.0.2.0/24",
		"10.0.7.22": "10.0.0.0/16"} {
		s := stepstest.NewSurvey(t)
		s.Adapters(adapters...)
		x := executor.NewExecutor(kinds.Catalog(), s.Open(), stepstest.Memory{}, func(event.Event) {})
		reply, err := x.Check(t.Context(),
			executor.Request{Node: "win-1",
				Steps: []steps.Spec{stepstest.Spec("preflight", "p", &preflight.Preflight{Address: address})}})
		stepstest.Must(t, err)
		if have := reply.Results[0].Change.Outputs["subnet"]; have != want {
			t.Errorf("address %q: subnet %q, want %q", address, have, want)
		}
	}
}
