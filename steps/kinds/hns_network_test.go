package kinds_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

// TestHNSNetworkOfOthers: a network that somebody else has made is used if it has the right type, otherwise refused;
// leave does not remove it.
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

// TestHNSNetworkOfAnotherSubnet: nodejoin's own network is replaced when it has another subnet than the plan's; one of
// others serves with any.
func TestHNSNetworkOfAnotherSubnet(t *testing.T) {
	want := external("L2Bridge", 0)
	list := []steps.Spec{stepstest.Spec("hns_network", "n", want)}
	for _, ours := range []bool{true, false} {
		h := stepstest.OpenHost(t, "windows")
		if ours {
			stepstest.Applied(t, h, stepstest.Memory{}, list)
			stepstest.Must(t, h.DeleteHNSNetwork(t.Context(), "External"))
		}
		stepstest.Must(t, h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "External", Type: "L2Bridge",
			Subnet: "10.77.0.0/24", Gateway: "10.77.0.1"}))
		stepstest.Applied(t, h, stepstest.Memory{}, list)
		n, err := h.HNSNetwork(t.Context(), "External")
		if err != nil || (n.Subnets[0] == want.Subnet) != ours {
			t.Errorf("ours %v: the network is %+v, %v", ours, n, err)
		}
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

// TestHNSNetworkAdapter: the switch is created on the adapter with the node's address. If that adapter has a switch
// already, HNS chooses.
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
		synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// TestHNSNetworkAwaitsItsAdapter: right after the removal of another network, no adapter has the address for a while.
func TestHNSNetworkAwaitsItsAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &adapterHost{Host: stepstest.OpenHost(t, "windows"), missing: 3}
		r := stepstest.Apply(t, h, stepstest.Memory{},
			[]steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))})
		if r.Err != nil || h.on != "Ethernet" {
			t.Errorf("made on %q, %v", h.on, r.Err)
		}
	})
}

type adapterHost struct {
	host.Host
	on      string
	missing int // how often the adapters are asked for and none has an address
}

func (h *adapterHost) Adapters(ctx context.Context) ([]host.Adapter, error) {
	if h.missing > 0 {
		h.missing--
		return nil, nil
	}
	return h.Host.Adapters(ctx)
}

func (h *adapterHost) CreateHNSNetwork(ctx context.Context, n host.HNSNetworkConfig) error {
	h.on = n.Adapter
	return h.Host.CreateHNSNetwork(ctx, n)
}

// TestPreflightSubnet: later steps know the network of the node's address, on whichever adapter it is.
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

// restarting is a machine whose HNS restarts while a network is created: the reply is lost, though the network may
// exist, and the next calls are not answered either.
type restarting struct {
	host.Host
	made    bool // the network is created before the reply is lost
	silent  int  // how many later calls are not answered
	creates int
	lost    bool
}

func (r *restarting) answer() error {
	if !r.lost || r.silent == 0 {
		return nil
	}
	r.silent--
	return &host.Error{Op: "read HNS network", Subject: "External", Err: host.ErrNoAnswer}
}

func (r *restarting) HNSNetwork(ctx context.Context, name string) (host.HNSNetwork, error) {
	if err := r.answer(); err != nil {
		return host.HNSNetwork{}, err
	}
	return r.Host.HNSNetwork(ctx, name)
}

func (r *restarting) CreateHNSNetwork(ctx context.Context, n host.HNSNetworkConfig) error {
	if err := r.answer(); err != nil {
		return err
	}
	r.creates++
	if r.lost {
		return r.Host.CreateHNSNetwork(ctx, n)
	}
	r.lost = true
	if r.made {
		if err := r.Host.CreateHNSNetwork(ctx, n); err != nil {
			return err
		}
	}
	return &host.Error{Op: "create HNS network", Subject: n.Name, Err: host.ErrNoAnswer}
}

// TestHNSNetworkAnswerLost: a lost reply of HNS does not fail the step, whether the call took effect or not.
func TestHNSNetworkAnswerLost(t *testing.T) {
	for _, made := range []bool{true, false} {
		h := &restarting{Host: stepstest.OpenHost(t, "windows"), made: made, silent: 3}
		r := stepstest.Apply(t, h, stepstest.Memory{},
			[]steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))})
		list, err := h.HNSNetworks(t.Context())
		if r.Err != nil || err != nil || len(list) != 1 || h.creates != 2 {
			t.Errorf("made %v: %v; %d calls, networks %+v, %v", made, r.Err, h.creates, list, err)
		}
	}
	// The connection breaks when the switch is created. The run reconnects and checks the step while HNS still
	// restarts.
	h := &restarting{Host: stepstest.OpenHost(t, "windows"), lost: true, silent: 3}
	if r := stepstest.Apply(t, h, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))}); r.Err != nil {
		t.Errorf("HNS restarts before the check: %v", r.Err)
	}
	h = &restarting{Host: stepstest.OpenHost(t, "windows"), silent: 1 << 30}
	s := stepstest.Spec("hns_network", "n", external("Overlay", 9999))
	s.Timeout = 500 * time.Millisecond
	r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{s})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "HNS does not answer") {
		t.Errorf("HNS stays silent: %v", r.Err)
	}
}

// unsettled is a machine whose HNS does not find an adapter at first: at any time, or after a network has gone.
type unsettled struct {
	host.Host
	refuses int // how many calls it refuses
	always  bool
}

func (u *unsettled) DeleteHNSNetwork(ctx context.Context, name string) error {
	u.refuses = 2
	return u.Host.DeleteHNSNetwork(ctx, name)
}

func (u *unsettled) CreateHNSNetwork(ctx context.Context, n host.HNSNetworkConfig) error {
	if u.refuses > 0 || u.always {
		u.refuses--
		return &host.Error{Op: "create HNS network", Subject: n.Name, Err: host.ErrUnsettled}
	}
	return u.Host.CreateHNSNetwork(ctx, n)
}

// TestHNSNetworkReplaced: HNS does not find the adapter of a network that has just gone, by the step itself or before
// it. One that it never finds is an error when the step's time is up.
func TestHNSNetworkReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &unsettled{Host: stepstest.OpenHost(t, "windows"), refuses: 2} // as a removal leaves it
		for _, vni := range []uint32{9999, 9998} {
			r := stepstest.Apply(t, h, stepstest.Memory{},
				[]steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", vni))})
			have, err := h.HNSNetwork(t.Context(), "External")
			if r.Err != nil || err != nil || have.VNI != vni || h.refuses > 0 {
				t.Errorf("VNI %d: %v; %+v, %v, still to be refused: %d", vni, r.Err, have, err, h.refuses)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := &unsettled{Host: stepstest.OpenHost(t, "windows"), always: true}
		r := stepstest.Apply(t, h, stepstest.Memory{},
			[]steps.Spec{stepstest.Spec("hns_network", "n", external("Overlay", 9999))})
		if r.Err == nil || !strings.Contains(r.Err.Error(), "the network is still changing") || -h.refuses < 5 {
			t.Errorf("an adapter that is not there: %v after %d calls", r.Err, -h.refuses)
		}
	})
}
