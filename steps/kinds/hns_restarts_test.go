package kinds_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// restartingAt is a machine whose HNS restarts at a certain call and does not answer some calls from then on.
type restartingAt struct {
	host.Host
	from, silent int
	calls        int
	makes        *host.HNSNetworkConfig // what the service's program creates when it starts
}

func (r *restartingAt) answer() error {
	r.calls++
	if r.calls < r.from || r.calls >= r.from+r.silent {
		return nil
	}
	return &host.Error{Op: "call HNS", Subject: "flannel.4096", Err: host.ErrNoAnswer}
}

func (r *restartingAt) StartService(ctx context.Context, name string) error {
	if r.makes != nil && name == "overlay" {
		if err := r.CreateHNSNetwork(ctx, *r.makes); err != nil {
			return err
		}
	}
	return r.Host.StartService(ctx, name)
}

func (r *restartingAt) HNSNetwork(ctx context.Context, name string) (host.HNSNetwork, error) {
	if err := r.answer(); err != nil {
		return host.HNSNetwork{}, err
	}
	return r.Host.HNSNetwork(ctx, name)
}

func (r *restartingAt) HNSEndpoints(ctx context.Context) ([]host.HNSEndpoint, error) {
	if err := r.answer(); err != nil {
		return nil, err
	}
	return r.Host.HNSEndpoints(ctx)
}

func (r *restartingAt) DeleteHNSNetwork(ctx context.Context, name string) error {
	if err := r.answer(); err != nil {
		return err
	}
	return r.Host.DeleteHNSNetwork(ctx, name)
}

func (r *restartingAt) DeleteHNSEndpoint(ctx context.Context, id string) error {
	if err := r.answer(); err != nil {
		return err
	}
	return r.Host.DeleteHNSEndpoint(ctx, id)
}

// restartsAtEach does something on copies of a machine and lets HNS restart at each of its calls in turn.
func restartsAtEach(t *testing.T, m *machine, do func(t *testing.T, h *restartingAt) error) {
	t.Helper()
	all := &restartingAt{Host: m.copy(t, "windows")}
	stepstest.Must(t, do(t, all))
	if all.calls == 0 {
		t.Fatal("no call of HNS")
	}
	for from := 1; from <= all.calls; from++ {
		if err := do(t, &restartingAt{Host: m.copy(t, "windows"), from: from, silent: 2}); err != nil {
			t.Errorf("HNS restarts at call %d of %d: %v", from, all.calls, err)
		}
	}
}

// TestHNSRestartsWhileNetworksGo: HNS restarts while a service gets another network, while a gate has its network
// created again, and while a node leaves.
func TestHNSRestartsWhileNetworksGo(t *testing.T) {
	ctx := t.Context()
	const exe = `C:\cni\overlay.exe`
	service := func(network string) steps.Spec {
		svc := stepstest.Service("overlay", exe)
		svc.HNSNetworks = []string{network}
		return stepstest.Spec("service", "overlay", svc)
	}
	m := newMachine(t, "windows")
	stepstest.Put(t, m, exe, "x")
	stepstest.Applied(t, m, stepstest.Memory{}, []steps.Spec{service("flannel.4096")})
	made := host.HNSNetworkConfig{Name: "flannel.4096", Type: "Overlay", Subnet: "10.244.3.0/24", Gateway: "10.244.3.1",
		VNI: 4096}
	stepstest.Must(t, m.CreateHNSNetwork(ctx, made))
	gone := func(t *testing.T, h *restartingAt, name string) error {
		if _, err := h.Host.HNSNetwork(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			return errors.New(name + " is left")
		}
		return nil
	}
	apply := func(t *testing.T, h host.Host, specs ...steps.Spec) error {
		if r := stepstest.Apply(t, h, stepstest.Memory{}, specs); r.Err != nil {
			return r.Err
		}
		return nil
	}

	t.Run("the service gets another network", func(t *testing.T) {
		restartsAtEach(t, m, func(t *testing.T, h *restartingAt) error {
			return errors.Join(apply(t, h, service("flannel.4097")), gone(t, h, "flannel.4096"))
		})
	})
	t.Run("the gate's network is another one", func(t *testing.T) {
		other := m.copy(t, "windows")
		stepstest.Must(t, other.DeleteHNSNetwork(ctx, made.Name))
		old := made
		old.Type, old.VNI = "L2Bridge", 0
		stepstest.Must(t, other.CreateHNSNetwork(ctx, old))
		restartsAtEach(t, other, func(t *testing.T, h *restartingAt) error {
			h.makes = &made
			gate := stepstest.Spec("hns_network_ready", "g", &kinds.HNSNetworkReady{Name: made.Name, Type: made.Type,
				VNI: made.VNI, Service: "overlay"})
			err := apply(t, h, service(made.Name), gate)
			n, lost := h.Host.HNSNetwork(t.Context(), made.Name)
			if n.Type != made.Type {
				lost = errors.Join(lost, errors.New("it is still of type "+n.Type))
			}
			return errors.Join(err, lost)
		})
	})
	t.Run("leave", func(t *testing.T) {
		restartsAtEach(t, m, func(t *testing.T, h *restartingAt) error {
			return errors.Join(leaveOnce(t, h), gone(t, h, made.Name))
		})
	})
	t.Run("leave with pods that were left", func(t *testing.T) {
		restartsAtEach(t, strandedNode(t), func(t *testing.T, h *restartingAt) error { return leaveOnce(t, h) })
	})
}
