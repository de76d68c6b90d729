package node

import (
	"context"
	"errors"
	"slices"
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
}

// tick is called before each call that HNS or the container runtime answers.
func (p *withPods) tick(ctx context.Context) error {
	if p.goes--; p.goes != 0 {
		return nil
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

// TestPodsEndWithTheirNetwork: the guard ends pods that lost their network, once; it ends none because a service ends.
func TestPodsEndWithTheirNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		m := newGuarded(t, &steps.Guard{Interval: time.Minute, Network: network, Restart: "b", CRI: "cri"})
		h := &withPods{Host: m.Host}
		opt := m.options(h)
		opt.Pause = 0
		ended := make(chan error)
		go func() { ended <- Run(ctx, opt) }()
		time.Sleep(time.Minute)
		m.stop("b")
		time.Sleep(2 * time.Minute)
		m.wantRunning("a", "b")
		if len(h.ended) > 0 {
			t.Errorf("ended %v for a service", h.ended)
		}
		if err := m.DeleteHNSNetwork(ctx, network); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		m.wantRunning("a", "b")
		time.Sleep(time.Hour)
		if want := []string{"cri 7e1", "cri 7e2"}; !slices.Equal(h.ended, want) {
			t.Errorf("ended %v, want %v", h.ended, want)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestPodsEndWhenever: the guard ends pods that lost their network, whatever it was looking at when the network went.
func TestPodsEndWhenever(t *testing.T) {
	for goes := 1; goes < 30; goes++ {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			m := newGuarded(t, &steps.Guard{Interval: time.Minute, Network: network, Restart: "b", CRI: "cri"})
			h := &withPods{Host: m.Host}
			opt := m.options(h)
			opt.Pause = 0
			ended := make(chan error)
			go func() { ended <- Run(ctx, opt) }()
			time.Sleep(90 * time.Second)
			h.goes = goes
			time.Sleep(time.Hour)
			if want := []string{"cri 7e1", "cri 7e2"}; !slices.Equal(h.ended, want) {
				t.Errorf("gone before call %d: ended %v, want %v", goes, h.ended, want)
			}
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// TestPodsEndWithTheirEndpoints: the guard ends pods if a restart of HNS keeps the network but loses their endpoints.
// If HNS keeps the endpoints, the pods stay.
func TestPodsEndWithTheirEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		m := newGuarded(t, &steps.Guard{Interval: time.Minute, Network: network, Restart: "b", CRI: "cri"})
		m.write(`C:\k\hns.exe`, "hns")
		restart := func() {
			t.Helper()
			if err := errors.Join(m.StopService(ctx, hnsService), m.StartService(ctx, hnsService)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			m.wantRunning("a", "b")
		}
		if err := errors.Join(m.CreateService(ctx, host.ServiceConfig{Name: hnsService,
			Command: []string{`C:\k\hns.exe`}, Start: host.StartManual}), m.StartService(ctx, hnsService)); err != nil {
			t.Fatal(err)
		}
		h := &withPods{Host: m.Host}
		opt := m.options(h)
		opt.Pause = 0
		ended := make(chan error)
		go func() { ended <- Run(ctx, opt) }()
		time.Sleep(time.Minute)
		restart()
		if len(h.ended) > 0 {
			t.Errorf("ended %v, which have their endpoints", h.ended)
		}
		h.lost = true
		restart()
		time.Sleep(time.Hour)
		if want := []string{"cri 7e1", "cri 7e2"}; !slices.Equal(h.ended, want) {
			t.Errorf("ended %v, want %v", h.ended, want)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestEndpointsLostInASharedProcess: HNS restarts in a process that it shares, so that its PID stays, and forgets the
// endpoints of the pods. Pods that have ended by themselves are no such sign.
func TestEndpointsLostInASharedProcess(t *testing.T) {
	for _, over := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			m := newGuarded(t, &steps.Guard{Interval: time.Minute, Network: network, Restart: "b", CRI: "cri"})
			h := &withPods{Host: m.Host}
			opt := m.options(h)
			opt.Pause = 0
			ended := make(chan error)
			go func() { ended <- Run(ctx, opt) }()
			time.Sleep(time.Minute)
			before, err := m.Service(ctx, "b")
			if err != nil {
				t.Fatal(err)
			}
			h.lost, h.over = true, over
			time.Sleep(time.Minute)
			after, err := m.Service(ctx, "b")
			if err != nil || (after.PID == before.PID) != over {
				t.Errorf("pods over %v: b was process %d and is %d, %v", over, before.PID, after.PID, err)
			}
			time.Sleep(time.Hour)
			m.wantRunning("a", "b")
			var want []string
			if !over {
				want = []string{"cri 7e1", "cri 7e2"}
			}
			if !slices.Equal(h.ended, want) {
				t.Errorf("pods over %v: ended %v, want %v", over, h.ended, want)
			}
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
