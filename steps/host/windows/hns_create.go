//go:build windows

package windows

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/Microsoft/hcsshim/hcn"

	"nodejoin/steps/host"
)

// CreateHNSNetwork creates a network that outlives boots: one without the flag
// EnableNonPersistent.
func (h *Host) CreateHNSNetwork(ctx context.Context, n host.HNSNetworkConfig) error {
	const op = "create HNS network"
	switch _, err := h.HNSNetwork(ctx, n.Name); {
	case err == nil:
		return failed(op, n.Name, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	network, err := networkOf(n)
	if err == nil {
		_, err = network.Create()
	}
	return failed(op, n.Name, err)
}

// networkOf is the network in the words of the second HNS interface.
func networkOf(n host.HNSNetworkConfig) (*hcn.HostComputeNetwork, error) {
	subnet := hcn.Subnet{IpAddressPrefix: n.Subnet,
		Routes: []hcn.Route{{NextHop: n.Gateway, DestinationPrefix: "0.0.0.0/0"}}}
	if n.VNI != 0 {
		vsid, err := json.Marshal(hcn.VsidPolicySetting{IsolationId: n.VNI})
		if err != nil {
			return nil, err
		}
		policy, err := json.Marshal(hcn.SubnetPolicy{Type: hcn.VSID, Settings: vsid})
		if err != nil {
			return nil, err
		}
		subnet.Policies = append(subnet.Policies, policy)
	}
	network := &hcn.HostComputeNetwork{Name: n.Name, Type: hcn.NetworkType(n.Type),
		Ipams:         []hcn.Ipam{{Type: "Static", Subnets: []hcn.Subnet{subnet}}},
		SchemaVersion: hcn.SchemaVersion{Major: 2, Minor: 0}}
	if n.Adapter != "" {
		name, err := json.Marshal(hcn.NetAdapterNameNetworkPolicySetting{NetworkAdapterName: n.Adapter})
		if err != nil {
			return nil, err
		}
		network.Policies = append(network.Policies, hcn.NetworkPolicy{Type: hcn.NetAdapterName, Settings: name})
	}
	return network, nil
}
