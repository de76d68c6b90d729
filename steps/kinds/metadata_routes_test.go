package kinds_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/stepstest"
)

// cloudRoutes are those that EC2Launch adds, one of an address of Azure, and one that is no business of nodejoin.
func cloudRoutes(adapter string) []host.Route {
	var out []host.Route
	for _, to := range []string{"169.254.169.254/32", "169.254.169.253/32", "168.63.129.16/32", "10.99.0.0/16"} {
		out = append(out, host.Route{Destination: to, Gateway: "192.0.2.1", Interface: adapter, Metric: 15})
	}
	return out
}

func cloudMachine(t *testing.T) *sandbox.Host {
	t.Helper()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(), OS: "windows"})
	stepstest.Must(t, err)
	return h
}

// madeRoutes are the routes that are not those of adapters.
func madeRoutes(t *testing.T, h host.Host) []host.Route {
	t.Helper()
	all, err := h.Routes(t.Context())
	stepstest.Must(t, err)
	return slices.DeleteFunc(all, func(r host.Route) bool { return r.Metric != 15 })
}

func wantRoutes(t *testing.T, h host.Host, when string, want []host.Route) {
	t.Helper()
	if have := madeRoutes(t, h); !slices.Equal(have, host.SortRoutes(slices.Clone(want))) {
		t.Errorf("%s: routes are %v, want %v", when, have, want)
	}
}

// TestMetadataRoutes: the virtual switch of the first network swallows the routes of its adapter. Those to the cloud's
// metadata are back when the step has ended, after a boot, and after the leave, which ends the switch.
func TestMetadataRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := cloudMachine(t)
		stepstest.Must(t, h.PutRoutes(t.Context(), cloudRoutes("Ethernet")...))
		list := []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))}
		stepstest.Applied(t, h, stepstest.Memory{}, list)
		onSwitch := cloudRoutes("vEthernet (Ethernet)")[:3]
		wantRoutes(t, h, "joined", onSwitch)
		stepstest.Must(t, h.Reboot(t.Context()))
		wantRoutes(t, h, "booted", nil)
		stepstest.Applied(t, h, stepstest.Memory{}, list)
		wantRoutes(t, h, "applied again", onSwitch)
		stepstest.Must(t, left(t, h))
		wantRoutes(t, h, "left", cloudRoutes("Ethernet")[:3])
	})
}

// TestMetadataRoutesInterrupted: a run that ends at any call of the join or of the leave is finished by the next.
func TestMetadataRoutesInterrupted(t *testing.T) {
	list := []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))}
	for at := 1; ; at++ {
		cut := 0
		synctest.Test(t, func(t *testing.T) {
			h := cloudMachine(t)
			stepstest.Must(t, h.PutRoutes(t.Context(), cloudRoutes("Ethernet")...))
			cutting := func() host.Host {
				n := 0
				return host.Intercept(h, func(string, string) error {
					if n++; n < at {
						return nil
					}
					cut++
					return errors.New("the machine is off")
				})
			}
			stepstest.Apply(t, cutting(), stepstest.Memory{}, list)
			stepstest.Applied(t, h, stepstest.Memory{}, list)
			wantRoutes(t, h, "joined", cloudRoutes("vEthernet (Ethernet)")[:3])
			_ = left(t, cutting())
			stepstest.Must(t, left(t, h))
			wantRoutes(t, h, "left", cloudRoutes("Ethernet")[:3])
		})
		if cut == 0 {
			return
		}
	}
}

// TestMetadataRoutesOfNobody: a machine that no cloud gave routes gets none, and one whose cloud restores them itself
// has nothing to do.
func TestMetadataRoutesOfNobody(t *testing.T) {
	h := cloudMachine(t)
	list := []steps.Spec{stepstest.Spec("hns_network", "n", external("L2Bridge", 0))}
	stepstest.Applied(t, h, stepstest.Memory{}, list)
	stepstest.Must(t, left(t, h))
	wantRoutes(t, h, "without a cloud", nil)

	stepstest.Must(t, h.PutRoutes(t.Context(), cloudRoutes("Ethernet")...))
	stepstest.Applied(t, h, stepstest.Memory{}, list)
	stepstest.Must(t, h.Reboot(t.Context()))
	stepstest.Must(t, h.PutRoutes(t.Context(), cloudRoutes("vEthernet (Ethernet)")[:3]...))
	if r := stepstest.Apply(t, h, stepstest.Memory{}, list); r.Err != nil || len(r.Changed) > 0 {
		t.Errorf("with the routes of the cloud's agent: %v, %v", r.Changed, r.Err)
	}
}
