package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// What flanneld had made and is gone while the node runs comes back in seconds: its service
// is restarted, and kube-proxy, whose step comes after the network.
func TestGateThatWasOpen(t *testing.T) {
	for _, c := range []struct {
		name, step string
		drift      func(h host.Host, dir string) error
	}{
		{"the HNS network is gone", "flannel_network", func(h host.Host, _ string) error {
			return h.DeleteHNSNetwork(t.Context(), "flannel.4096")
		}},
		{"subnet.env is gone", "subnet_env", func(_ host.Host, dir string) error {
			return os.Remove(filepath.Join(dir, "C", "run", "flannel", "subnet.env"))
		}},
		{"the network is of another type", "flannel_network", func(h host.Host, _ string) error {
			n, err := h.HNSNetwork(t.Context(), "flannel.4096")
			if err == nil {
				n.Type = "L2Bridge"
				err = h.(interface {
					PutHNSNetwork(ctx context.Context, n host.HNSNetwork) error
				}).PutHNSNetwork(t.Context(), n)
			}
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.one = true
			w.mustConverge()
			w.mustBeQuiet()
			h, dir := w.box()
			proxy, err := h.Service(t.Context(), "kube-proxy")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.drift(h, dir); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			r, sum := w.apply(-1)
			var found steps.Action
			for _, s := range r.Hosts[0].Steps {
				if s.Result.Change.Action == steps.ActionRestart && s.Spec.ID != "kube_proxy" {
					found = s.Result.Change.Action
				}
			}
			if found != steps.ActionRestart {
				t.Errorf("the plan does not restart: %+v", r.Hosts[0].Steps)
			}
			if err := sum.Hosts[0].Err; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			now, err := h.Service(t.Context(), "kube-proxy")
			if err != nil || now.State != host.ServiceRunning {
				t.Errorf("kube-proxy: %+v, %v", now, err)
			}
			if c.step != "subnet_env" && now.PID == proxy.PID {
				t.Error("kube-proxy, which uses the network, was not restarted")
			}
			// Where the network is made again, kube-proxy restarts with flanneld, on which it depends.
			if again := now.PID != proxy.PID; c.step == "subnet_env" &&
				again != slices.Contains(sum.Hosts[0].Changed, "kube_proxy") {
				t.Errorf("kube-proxy was restarted: %v; changed %v", again, sum.Hosts[0].Changed)
			}
			w.mustBeQuiet()
		})
	}
}

// On Linux flanneld does not make its interface again, either: its service is restarted.
func TestInterfaceThatWasThere(t *testing.T) {
	w := newWorld(t)
	if err := w.applied(planOf("linux", "vxlan")); err != nil {
		t.Fatal(err)
	}
	_, dir := w.box()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, OS: "linux"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.DeleteInterface(t.Context(), "flannel.4096"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r, _ := w.apply(-1)
	if !slices.ContainsFunc(r.Hosts[0].Steps, func(s engine.StepReport) bool {
		return s.Spec.ID == "subnet_env" && s.Result.Change.Action == steps.ActionRestart
	}) {
		t.Errorf("the plan does not restart: %+v", r.Hosts[0].Steps)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	w.mustBeQuiet()
	if have, err := h.Interfaces(t.Context()); err != nil || !slices.Contains(have, "flannel.4096") {
		t.Errorf("interfaces %v, %v", have, err)
	}
}
