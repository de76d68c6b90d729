package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
	hostwindows "nodejoin/steps/host/windows"
)

// The network lies on a loopback adapter, so that no other adapter of the machine gets a switch.
const (
	networkName = "nodejoin-probe"
	networkVNI  = 4097
)

// askHNS makes a network as nodejoin does, on a loopback adapter that it adds, and removes both.
func askHNS(ctx context.Context) []answer {
	const name = "HNS"
	h, err := hostwindows.New(hostwindows.Options{})
	if err != nil {
		return []answer{{name: name, err: err}}
	}
	if _, err := h.HNSNetworks(ctx); err != nil {
		return []answer{{name: name, err: fmt.Errorf("list networks: %w", err)}}
	}
	adapter, remove, err := addLoopback(ctx, h)
	if err != nil {
		return []answer{{name: name, err: fmt.Errorf("loopback adapter: %w", err)}}
	}
	out := askNetwork(ctx, h, adapter)
	if err := remove(); err != nil {
		out = append(out, answer{name: "the loopback adapter is removed", err: err})
	}
	return out
}

func askNetwork(ctx context.Context, h *hostwindows.Host, adapter string) []answer {
	config := host.HNSNetworkConfig{Name: networkName, Type: "Overlay", Subnet: "10.250.0.0/24", Gateway: "10.250.0.1",
		VNI: networkVNI, Adapter: adapter}
	if err := h.CreateHNSNetwork(ctx, config); err != nil {
		return []answer{{name: "an overlay network is made", seen: err.Error()}}
	}
	began := time.Now()
	first, err := h.HNSNetwork(ctx, networkName)
	have := first
	for have.ManagementIP == "" && time.Since(began) < time.Minute && ctx.Err() == nil {
		time.Sleep(500 * time.Millisecond)
		have, err = h.HNSNetwork(ctx, networkName)
	}
	out := []answer{
		{name: "an overlay network is made", expected: err == nil, seen: fmt.Sprintf("%+v, %v", have, err)},
		{name: "a query reports the VSID", expected: have.VNI == networkVNI, seen: fmt.Sprint(have.VNI), err: err},
		{name: "an overlay network reports its management address", expected: have.ManagementIP != "",
			seen: fmt.Sprintf("%q at once, %q after %s", first.ManagementIP, have.ManagementIP,
				time.Since(began).Round(time.Second)), err: err},
	}
	adapters, err := h.Adapters(ctx)
	switched := "vEthernet (" + adapter + ")"
	out = append(out, answer{name: "the adapter of a switch is vEthernet (NAME)", err: err,
		seen:     fmt.Sprintf("%+v", adapters),
		expected: slices.ContainsFunc(adapters, func(a host.Adapter) bool { return a.Name == switched })})

	config.Name, config.VNI, config.Subnet, config.Gateway = networkName+"-2", networkVNI+1, "10.251.0.0/24", "10.251.0.1"
	config.Adapter = switched
	err = h.CreateHNSNetwork(ctx, config)
	out = append(out, answer{name: "a network that names a vEthernet adapter is refused with 0x803b0006",
		expected: err != nil && strings.Contains(strings.ToLower(err.Error()), "803b0006"), seen: fmt.Sprint(err)})

	err = errors.Join(h.DeleteHNSNetwork(ctx, config.Name), h.DeleteHNSNetwork(ctx, networkName))
	return append(out, answer{name: "networks are removed", expected: err == nil, seen: fmt.Sprint(err)})
}
