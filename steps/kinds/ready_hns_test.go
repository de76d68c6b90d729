package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// changing is a machine whose HNS returns errors at first, as while a virtual switch is created or the service
// restarts.
type changing struct {
	host.Host
	errors int
	err    error
}

func (c *changing) HNSNetwork(ctx context.Context, name string) (host.HNSNetwork, error) {
	if c.errors > 0 {
		c.errors--
		return host.HNSNetwork{}, c.err
	}
	return c.Host.HNSNetwork(ctx, name)
}

func hnsGate() []steps.Spec {
	s := stepstest.Spec("hns_network_ready", "g", &kinds.HNSNetworkReady{Name: "flannel.4096", Type: "Overlay",
		VNI: 4096})
	s.Timeout = 10 * time.Second
	return []steps.Spec{s}
}

func withNetwork(t *testing.T) host.Host {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Must(t, h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "flannel.4096", Type: "Overlay",
		Subnet: "10.244.3.0/24", Gateway: "10.244.3.1", VNI: 4096}))
	return h
}

// TestHNSGateOutlivesErrors: the gate retries errors of HNS while it has time. An error that waiting cannot fix ends
// it.
func TestHNSGateOutlivesErrors(t *testing.T) {
	rpc := errors.New("RPC server is unavailable (0x800706ba)")
	c := &changing{Host: withNetwork(t), errors: 4, err: rpc}
	if r := stepstest.Apply(t, c, stepstest.Memory{}, hnsGate()); r.Err != nil {
		t.Errorf("four errors, then an answer: %+v", r.Err)
	}
	c.errors = 1 << 30
	short := hnsGate()
	short[0].Timeout = 300 * time.Millisecond
	r := stepstest.Apply(t, c, stepstest.Memory{}, short)
	if r.Err == nil || r.Err.Code != steps.CodeTimeout || !strings.Contains(r.Err.Detail, "HNS does not answer: RPC "+
		"server is unavailable") {
		t.Errorf("nothing but errors: %+v", r.Err)
	}
	c.err = fmt.Errorf("no library: %w", host.ErrUnsupported)
	began := time.Now()
	if r := stepstest.Apply(t, c, stepstest.Memory{}, hnsGate()); r.Err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("a machine without HNS: %+v after %s", r.Err, time.Since(began))
	}
}

// TestHNSGateWithoutVNI: HNS may not report the VNI of an overlay network.
func TestHNSGateWithoutVNI(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Must(t, h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "flannel.4096", Type: "Overlay",
		Subnet: "10.244.3.0/24", Gateway: "10.244.3.1"}))
	if r := stepstest.Apply(t, h, stepstest.Memory{}, hnsGate()); r.Err != nil {
		t.Errorf("%+v", r.Err)
	}
	r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("hns_network", "n",
		&kinds.HNSNetwork{Name: "flannel.4096", Type: "Overlay", Subnet: "10.244.3.0/24", VNI: 4096})})
	if r.Err != nil || len(r.Changed) > 0 {
		t.Errorf("the step that makes such a network: changed %v, %+v", r.Changed, r.Err)
	}
}
