package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// withPods is a machine with two pods in its container runtime, and their endpoints in its HNS network.
type withPods struct {
	host.Host
	ended []string
	lost  bool // HNS has forgotten the endpoints
	over  bool // the pods have ended by themselves
	// goes counts the calls of the machine until the network goes, before the last of them; 0 = it stays.
	goes int
	// instead is what happens instead of that; nil = the network goes.
	instead func() error
}

// tick is called before each call that HNS or the container runtime answers.
func (p *withPods) tick(ctx context.Context) error {
	if p.goes--; p.goes != 0 {
		return nil
	}
	if p.instead != nil {
		return p.instead()
	}
	return p.DeleteHNSNetwork(ctx, network)
}

func (p *withPods) HNSNetwork(ctx context.Context, name string) (host.HNSNetwork, error) {
	if err := p.tick(ctx); err != nil {
		return host.HNSNetwork{}, err
	}
	return p.Host.HNSNetwork(ctx, name)
}

func (p *withPods) Service(ctx context.Context, name string) (host.Service, error) {
	if err := p.tick(ctx); err != nil {
		return host.Service{}, err
	}
	return p.Host.Service(ctx, name)
}

func (p *withPods) HNSEndpoints(ctx context.Context) ([]host.HNSEndpoint, error) {
	n, err := p.HNSNetwork(ctx, network)
	list := []host.HNSEndpoint{{ID: "a node's", Network: n.ID, Remote: true}}
	if !p.lost {
		list = append(list, host.HNSEndpoint{ID: "web's", Name: "7e1_" + network, Network: n.ID},
			host.HNSEndpoint{ID: "logs'", Name: "7e2_" + network, Network: n.ID})
	}
	return list, err
}

func (p *withPods) Pods(context.Context, string) ([]host.Pod, error) {
	if len(p.ended) > 0 {
		return nil, nil
	}
	return []host.Pod{{ID: "7e1", Namespace: "default", Name: "web", Ended: p.over},
		{ID: "7e2", Namespace: "kube-system", Name: "logs", Ended: p.over}}, nil
}

func (p *withPods) RemovePod(_ context.Context, cri, id string) error {
	p.ended = append(p.ended, cri+" "+id)
	return nil
}

// between is a time between two looks of the guard.
const between = time.Minute + 1500*time.Millisecond

// both are the pods of a machine, as they are ended.
var both = []string{"cri 7e1", "cri 7e2"}

// guarding runs the guard of a machine with pods and, with hns, a Host Networking Service, and calls f between two
// looks.
func guarding(t *testing.T, hns bool, f func(ctx context.Context, t *testing.T, m *machine, h *withPods)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		m := newGuarded(t, &steps.Guard{Interval: time.Minute, Network: network, Restart: "b", CRI: "cri"})
		if hns {
			m.write(`C:\k\hns.exe`, "hns")
			if err := errors.Join(m.CreateService(ctx, host.ServiceConfig{Name: hnsService,
				Command: []string{`C:\k\hns.exe`}, Start: host.StartManual}), m.StartService(ctx, hnsService)); err != nil {
				t.Fatal(err)
			}
		}
		h := &withPods{Host: m.Host}
		opt := m.options(h)
		opt.Pause = 0
		ended := make(chan error)
		go func() { ended <- Run(ctx, opt) }()
		time.Sleep(between)
		f(ctx, t, m, h)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// restartHNS restarts the Host Networking Service, which keeps its networks here.
func (m *machine) restartHNS(ctx context.Context) error {
	return errors.Join(m.StopService(ctx, hnsService), m.StartService(ctx, hnsService))
}

// wantEnded checks which pods the guard has ended.
func (p *withPods) wantEnded(t *testing.T, when string, want []string) {
	t.Helper()
	if !slices.Equal(p.ended, want) {
		t.Errorf("%s: ended %v, want %v", when, p.ended, want)
	}
}

// TestPodsEndWithTheirNetwork: the guard ends pods that lost their network, once; it ends none because a service ends.
func TestPodsEndWithTheirNetwork(t *testing.T) {
	guarding(t, false, func(ctx context.Context, t *testing.T, m *machine, h *withPods) {
		m.stop("b")
		time.Sleep(2 * time.Minute)
		m.wantRunning("a", "b")
		h.wantEnded(t, "a service has ended", nil)
		if err := m.DeleteHNSNetwork(ctx, network); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		m.wantRunning("a", "b")
		time.Sleep(time.Hour)
		h.wantEnded(t, "the network went", both)
	})
}

// TestPodsEndWhenever: the guard ends pods that lost their network, whatever it was looking at when the network went.
func TestPodsEndWhenever(t *testing.T) {
	for goes := 1; goes < 45; goes++ {
		guarding(t, false, func(_ context.Context, t *testing.T, _ *machine, h *withPods) {
			h.goes = goes
			time.Sleep(time.Hour)
			h.wantEnded(t, fmt.Sprintf("the network went before call %d", goes), both)
		})
	}
}

// TestServiceOfAnotherNetwork: somebody made the HNS network again between two looks. It differs in nothing but its
// ID; the service that uses it is restarted, and the pods of the network that is gone end.
func TestServiceOfAnotherNetwork(t *testing.T) {
	guarding(t, false, func(ctx context.Context, t *testing.T, m *machine, h *withPods) {
		was, err := m.HNSNetwork(ctx, network)
		if err != nil {
			t.Fatal(err)
		}
		b := m.pid("b")
		if err := errors.Join(m.DeleteHNSNetwork(ctx, network), m.CreateHNSNetwork(ctx, host.HNSNetworkConfig{
			Name: network, Type: "Overlay", Subnet: "10.244.3.0/24", Gateway: "10.244.3.1", VNI: 4096})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		m.wantRunning("a", "b")
		if is, err := m.HNSNetwork(ctx, network); err != nil || is.ID == was.ID {
			t.Fatalf("the network is not another one: %+v, %v", is, err)
		}
		if m.pid("b") == b {
			t.Error("b was not restarted")
		}
		h.wantEnded(t, "another network", both)
	})
}

// TestServiceRestartsWhenever: HNS restarts and keeps the network. The service that uses it, whose policies are lost,
// is restarted after that, whatever the guard was doing when HNS restarted: looking, or fixing something else.
func TestServiceRestartsWhenever(t *testing.T) {
	for goes := 1; goes < 60; goes++ {
		guarding(t, true, func(ctx context.Context, t *testing.T, m *machine, h *withPods) {
			restarted := -1
			h.instead = func() error {
				restarted = m.pid("b")
				return m.restartHNS(ctx)
			}
			h.goes = goes
			m.write(config, "of somebody else")
			time.Sleep(10 * time.Minute)
			m.wantRunning("a", "b")
			if b := m.pid("b"); b == restarted || restarted < 0 {
				t.Errorf("HNS restarted before call %d: b is still the process that lost its policies\n%s", goes,
					strings.Join(m.lines, "\n"))
			}
			h.wantEnded(t, "the pods have their endpoints", nil)
		})
	}
}

// TestPodsEndWithTheirEndpoints: the guard ends pods if a restart of HNS keeps the network but loses their endpoints.
// If HNS keeps the endpoints, the pods stay.
func TestPodsEndWithTheirEndpoints(t *testing.T) {
	guarding(t, true, func(ctx context.Context, t *testing.T, m *machine, h *withPods) {
		restart := func() {
			t.Helper()
			if err := m.restartHNS(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			m.wantRunning("a", "b")
		}
		restart()
		h.wantEnded(t, "the pods have their endpoints", nil)
		h.lost = true
		restart()
		time.Sleep(time.Hour)
		h.wantEnded(t, "the endpoints are lost", both)
	})
}

// TestEndpointsLostInASharedProcess: HNS restarts in a process that it shares, so that its PID stays, and forgets the
// endpoints of the pods. Pods that have ended by themselves are no such sign.
func TestEndpointsLostInASharedProcess(t *testing.T) {
	for over, want := range map[bool][]string{false: both, true: nil} {
		guarding(t, false, func(_ context.Context, t *testing.T, m *machine, h *withPods) {
			before := m.pid("b")
			h.lost, h.over = true, over
			time.Sleep(time.Minute)
			if after := m.pid("b"); (after == before) != over {
				t.Errorf("pods over %v: b was process %d and is %d", over, before, after)
			}
			time.Sleep(time.Hour)
			m.wantRunning("a", "b")
			h.wantEnded(t, fmt.Sprintf("pods over %v", over), want)
		})
	}
}
