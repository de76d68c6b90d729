//go:build windows

package windows

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

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
		err = network.create()
	}
	return failed(op, n.Name, err)
}

// networkOf is the network in the words of the second HNS interface.
func networkOf(n host.HNSNetworkConfig) (hcnNetwork, error) {
	subnet := hcnSubnet{IpAddressPrefix: n.Subnet,
		Routes: []hcnRoute{{NextHop: n.Gateway, DestinationPrefix: "0.0.0.0/0"}}}
	if n.VNI != 0 {
		vsid, err := json.Marshal(hcnVsid{IsolationId: n.VNI})
		if err != nil {
			return hcnNetwork{}, err
		}
		subnet.Policies = append(subnet.Policies, hcnPolicy{Type: hcnVSID, Settings: vsid})
	}
	network := hcnNetwork{Name: n.Name, Type: n.Type, Ipams: []hcnIpam{{Type: "Static", Subnets: []hcnSubnet{subnet}}},
		SchemaVersion: hcnSchema}
	if n.Adapter != "" {
		name, err := json.Marshal(struct{ NetworkAdapterName string }{n.Adapter})
		if err != nil {
			return hcnNetwork{}, err
		}
		network.Policies = append(network.Policies, hcnPolicy{Type: hcnNetAdapterName, Settings: name})
	}
	return network, nil
}
