package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// addressDelay is how long the network that creates a virtual switch has no management address.
const addressDelay = 100 * time.Millisecond

// errAdapter is HCN_E_ADAPTER_NOT_FOUND (computenetwork.h): HNS creates no network on the adapter of a virtual
// switch, nor on one that has a switch; a network that names none uses the switch.
var errAdapter = errors.New("an adapter was not found (0x803b0006)")

// HNSNetwork returns a network that flanneld or nodejoin has created. Names are case-insensitive.
func (h *Host) HNSNetwork(ctx context.Context, name string) (host.HNSNetwork, error) {
	var out host.HNSNetwork
	q, err := h.ask(ctx, "HNSNetwork", name)
	if err != nil {
		return out, err
	}
	err = h.view(ctx, "read HNS network", name, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		n, ok := s.Networks[h.fold(name)]
		if i := slices.IndexFunc(q.Networks, func(n host.HNSNetwork) bool { return strings.EqualFold(n.Name, name) }); !ok &&
			i >= 0 {
			n, ok = q.Networks[i], true
		}
		if !ok {
			return fs.ErrNotExist
		}
		out = copied(n)
		if time.Now().Before(s.Due[h.fold(name)]) {
			out.ManagementIP = ""
		}
		return nil
	})
	return out, err
}

// CreateHNSNetwork creates a network that survives reboots.
func (h *Host) CreateHNSNetwork(ctx context.Context, n host.HNSNetworkConfig) error {
	return failed("create HNS network", n.Name, h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		key := h.fold(n.Name)
		if _, there := s.Networks[key]; there {
			return fs.ErrExist
		}
		err := h.makeNetwork(s, host.HNSNetwork{ID: networkID(), Name: n.Name, Type: n.Type, ManagementIP: h.cfg.IP,
			Subnets: []string{n.Subnet}, VNI: n.VNI}, n.Adapter)
		if err == nil {
			s.Lasting = append(s.Lasting, key)
			slices.Sort(s.Lasting)
		}
		return err
	}))
}

// makeNetwork creates a network on the adapter; with "", on the virtual switch if there is one, else on the adapter
// with the machine's address. The first network creates the switch.
func (h *Host) makeNetwork(s *state, n host.HNSNetwork, adapter string) error {
	key := h.fold(n.Name)
	list, err := h.adapters(s)
	if err != nil {
		return err
	}
	has := slices.ContainsFunc(list, func(a host.Adapter) bool { return a.Name == adapter })
	if adapter != "" && (!has || strings.HasPrefix(adapter, vEthernet)) {
		return errAdapter
	}
	if own := or(adapter, adapterWith(list, h.cfg.IP)); s.Switch == "" && !strings.HasPrefix(own, vEthernet) {
		s.dropRoutes(own)
		s.Switch = own
		if s.Due == nil {
			s.Due = map[string]time.Time{}
		}
		s.Due[key] = time.Now().Add(addressDelay)
	}
	s.Networks[key] = n
	return nil
}

// DeleteHNSNetwork removes a network.
func (h *Host) DeleteHNSNetwork(ctx context.Context, name string) error {
	return failed("delete HNS network", name, h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		s.deleteNetwork(h.fold(name))
		return nil
	}))
}

// deleteNetwork removes a network; with the last one goes the switch.
func (s *state) deleteNetwork(key string) {
	id := s.Networks[key].ID
	s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e host.HNSEndpoint) bool { return e.Network == id })
	delete(s.Networks, key)
	delete(s.Due, key)
	s.Lasting = slices.DeleteFunc(s.Lasting, func(have string) bool { return have == key })
	for _, n := range s.Networks {
		if n.Type != "NAT" {
			return
		}
	}
	if s.Switch != "" {
		s.dropRoutes(onSwitch(s.Switch))
		s.Switch = ""
	}
}

// dropRoutes drops the routes that programs have made over an adapter, as Windows does when a virtual switch takes
// the adapter, or goes.
func (s *state) dropRoutes(adapter string) {
	s.Routes = slices.DeleteFunc(s.Routes, func(r host.Route) bool { return r.Interface == adapter })
}

// onSwitch is the name that an adapter has while a virtual switch has it.
func onSwitch(adapter string) string { return vEthernet + " (" + adapter + ")" }

// PutHNSNetwork creates or replaces a network, as a program that is not simulated would.
func (h *Host) PutHNSNetwork(ctx context.Context, n host.HNSNetwork) error {
	return failed("put HNS network", n.Name, h.change(ctx, func(s *state) error {
		s.Networks[h.fold(n.Name)] = copied(n)
		return nil
	}))
}

// forgetNetworks removes the networks that do not survive a reboot or a restart of HNS.
func (h *Host) forgetNetworks(s *state) {
	for key, n := range s.Networks {
		if !slices.Contains(s.Lasting, key) && n.Type != "NAT" {
			s.deleteNetwork(key)
		}
	}
}

// vEthernet begins the name of the adapter that the machine has on a virtual switch.
const vEthernet = "vEthernet"

// adapters are the machine's one adapter, or those of the quirks, by the names that they have now.
func (h *Host) adapters(s *state) ([]host.Adapter, error) {
	q, err := h.quirks()
	if err != nil {
		return nil, err
	}
	list := q.Adapters
	if list == nil {
		name := "Ethernet"
		if !h.windows() {
			name = "eth0"
		}
		list = []host.Adapter{{Name: name,
			Addresses: []string{netip.PrefixFrom(netip.MustParseAddr(h.cfg.IP), h.prefix.Bits()).String()}, Gateway: true}}
	}
	for i := range list {
		if s.Switch != "" && list[i].Name == s.Switch {
			list[i].Name = onSwitch(s.Switch)
		}
	}
	return list, nil
}

// adapterWith is the name of the adapter with an address, "" if none has it.
func adapterWith(list []host.Adapter, address string) string {
	for _, a := range list {
		for _, p := range a.Prefixes() {
			if p.Addr().String() == address {
				return a.Name
			}
		}
	}
	return ""
}

func networkID() string {
	id := randomHex(16)
	return strings.ToUpper(fmt.Sprintf("%s-%s-%s-%s-%s", id[:8], id[8:12], id[12:16], id[16:20], id[20:]))
}
