package selftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/selftest/loopback"
	"nodejoin/steps/wait"
)

const (
	networkVNI = 4097
	// attachFor is how long HNS may take to give a network its management address.
	attachFor = time.Minute
	lookEvery = 500 * time.Millisecond
)

// onLoopback makes networks as nodejoin does, on a loopback adapter that it adds, so that no other adapter of the
// machine gets a switch; both are removed.
func (t *test) onLoopback() {
	why := t.nativeWhy
	var adapter string
	var remove func() error
	if t.native {
		adapter, remove, why = loopback.Add(t.ctx, t.host, "192.0.2.10", "255.255.255.0")
	}
	if why != nil {
		for _, q := range loopbackQuestions {
			t.see(q.name, q.claim, nil, fmt.Errorf("%w: no loopback adapter: %w", errNotAsked, why))
		}
		return
	}
	t.later("the loopback adapter is removed", func(context.Context) error { return remove() })
	for _, own := range ownNetworks {
		t.later("the network "+own+" is removed",
			func(ctx context.Context) error { return t.host.DeleteHNSNetwork(ctx, own) })
	}
	t.overlay(adapter)
}

func (t *test) overlay(adapter string) {
	config := host.HNSNetworkConfig{Name: ownNetworks[0], Type: "Overlay", Subnet: "10.250.0.0/24",
		Gateway: "10.250.0.1", VNI: networkVNI, Adapter: adapter}
	if !t.see(askOverlay, 1, adapter, t.host.CreateHNSNetwork(t.ctx, config)) {
		return
	}
	began := time.Now()
	first, err := t.host.HNSNetwork(t.ctx, config.Name)
	have, failures := first, 0
	for have.ManagementIP == "" && time.Since(began) < attachFor && t.ctx.Err() == nil {
		if wait.Pause(t.ctx, lookEvery) != nil {
			break
		}
		if have, err = t.host.HNSNetwork(t.ctx, config.Name); err != nil {
			failures++
		}
	}
	t.see(askAnswers, 5, fmt.Sprintf("%d errors, the last: %v", failures, err), is(failures == 0))
	t.see(askVSID, 6, have, errors.Join(err, is(have.VNI == networkVNI)))
	t.see(askAddress, 19, fmt.Sprintf("%q at once, %q after %s",
		first.ManagementIP, have.ManagementIP, time.Since(began).Round(time.Second)), is(have.ManagementIP != ""))
	adapters, err := t.host.Adapters(t.ctx)
	switched := "vEthernet (" + adapter + ")"
	t.see(askSwitched, 1, adapters, errors.Join(err,
		is(slices.ContainsFunc(adapters, func(a host.Adapter) bool { return a.Name == switched }))))

	again := errors.Join(t.host.DeleteHNSNetwork(t.ctx, config.Name), t.host.CreateHNSNetwork(t.ctx, config))
	t.see(askMadeAgain, 11, nil, again)

	config.Name, config.VNI, config.Subnet, config.Gateway = ownNetworks[1], networkVNI+1, "10.251.0.0/24", "10.251.0.1"
	config.Adapter = switched
	refused := t.host.CreateHNSNetwork(t.ctx, config)
	t.see(askRefused, 1, refused,
		is(refused != nil && strings.Contains(strings.ToLower(refused.Error()), "803b0006")))
}
