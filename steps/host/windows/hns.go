//go:build windows

package windows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"nodejoin/steps/host"
)

var hnsCall = windows.NewLazySystemDLL("vmcompute.dll").NewProc("HNSCall")

// HNSNetwork reads a network by name. A machine without the Host Compute Network
// library (the Containers feature is not installed) is unsupported.
func (h *Host) HNSNetwork(ctx context.Context, name string) (host.HNSNetwork, error) {
	const op = "read HNS network"
	// All are listed: whether the service's own filter minds case is not documented.
	networks, err := listNetworks(ctx)
	if err != nil {
		return host.HNSNetwork{}, failed(op, name, err)
	}
	for _, n := range networks {
		if strings.EqualFold(n.Name, name) {
			network, err := describeNetwork(n)
			return network, failed(op, name, err)
		}
	}
	return host.HNSNetwork{}, failed(op, name, fs.ErrNotExist)
}

// HNSNetworks lists the networks of HNS.
func (h *Host) HNSNetworks(ctx context.Context) ([]host.HNSNetwork, error) {
	const op, subject = "list", "HNS networks"
	networks, err := listNetworks(ctx)
	if err != nil {
		return nil, failed(op, subject, err)
	}
	out := []host.HNSNetwork{}
	for _, n := range networks {
		network, err := describeNetwork(n)
		if err != nil {
			return nil, failed(op, subject, fmt.Errorf("%s: %w", n.Name, err))
		}
		out = append(out, network)
	}
	slices.SortFunc(out, func(a, b host.HNSNetwork) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return out, nil
}

// HNSEndpoints lists the endpoints of HNS.
func (h *Host) HNSEndpoints(ctx context.Context) ([]host.HNSEndpoint, error) {
	const op, subject = "list", "HNS endpoints"
	endpoints, err := askHNS[hcnEndpoint](ctx, hcnEndpoints)
	if err != nil {
		return nil, failed(op, subject, err)
	}
	out := []host.HNSEndpoint{}
	for _, e := range endpoints {
		have := host.HNSEndpoint{ID: e.ID, Name: e.Name, Network: e.HostComputeNetwork, MAC: e.MacAddress,
			Remote: e.Flags&hcnRemoteEndpoint != 0}
		for _, ip := range e.IpConfigurations {
			have.Addresses = append(have.Addresses, fmt.Sprintf("%s/%d", ip.IpAddress, ip.PrefixLength))
		}
		out = append(out, have)
	}
	return host.SortEndpoints(out), nil
}

// HNSLoadBalancers lists the load balancers of HNS.
func (h *Host) HNSLoadBalancers(ctx context.Context) ([]host.HNSLoadBalancer, error) {
	balancers, err := askHNS[hcnLoadBalancer](ctx, hcnLoadBalancers)
	if err != nil {
		return nil, failed("list", "HNS load balancers", err)
	}
	out := []host.HNSLoadBalancer{}
	for _, b := range balancers {
		have := host.HNSLoadBalancer{ID: b.ID, Addresses: b.FrontendVIPs, Source: b.SourceVIP,
			Endpoints: append([]string{}, b.HostComputeEndpoints...)}
		for _, m := range b.PortMappings {
			protocol, known := map[uint32]string{windows.IPPROTO_TCP: "tcp", windows.IPPROTO_UDP: "udp"}[m.Protocol]
			if !known {
				protocol = fmt.Sprintf("protocol %d", m.Protocol)
			}
			have.Ports = append(have.Ports, fmt.Sprintf("%s %d to %d", protocol, m.ExternalPort, m.InternalPort))
		}
		out = append(out, have)
	}
	return host.SortLoadBalancers(out), nil
}

func listNetworks(ctx context.Context) ([]hcnNetwork, error) {
	return askHNS[hcnNetwork](ctx, hcnNetworks)
}

// lists is how often to ask HNS for a list while its entries vanish.
const lists = 5

// vanished reports whether err is about an object that has just been deleted.
func vanished(err error) bool {
	return isHCN(err, windows.ERROR_NOT_FOUND, windows.Errno(windows.HCN_E_NETWORK_NOT_FOUND),
		windows.Errno(windows.HCN_E_ENDPOINT_NOT_FOUND))
}

// askHNS lists objects if the machine has the library. An entry that vanishes while it is read fails the call;
// then it tries again.
func askHNS[T any](ctx context.Context, objects hcnObjects) ([]T, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := objects.enumerate.Find(); err != nil {
		return nil, fmt.Errorf("%w: no Host Compute Network library (%w)", host.ErrUnsupported, err)
	}
	out, err := hcnList[T](objects)
	for n := 1; n < lists && vanished(err) && ctx.Err() == nil; n++ {
		out, err = hcnList[T](objects)
	}
	if notInstalled(ctx, err) {
		err = fmt.Errorf("%w: no Host Networking Service (the feature Containers is not installed)", host.ErrUnsupported)
	}
	return out, err
}

// notInstalled reports whether err is what a machine without the feature Containers answers. That no program has
// registered the interface can also mean that the service has not started yet.
func notInstalled(ctx context.Context, err error) bool {
	if isHCN(err, windows.EPT_S_NOT_REGISTERED) {
		err := withService(ctx, "read service", "hns", queryRights, func(*mgr.Mgr, *mgr.Service) error { return nil })
		return errors.Is(err, fs.ErrNotExist)
	}
	return isHCN(err, windows.ERROR_SERVICE_DOES_NOT_EXIST, windows.Errno(windows.REGDB_E_CLASSNOTREG))
}

func describeNetwork(n hcnNetwork) (host.HNSNetwork, error) {
	have := host.HNSNetwork{ID: n.ID, Name: n.Name, Type: cmp.Or(n.Type, hcnNAT)}
	for _, p := range n.Policies {
		switch p.Type {
		case hcnProviderAddress:
			var s struct{ ProviderAddress string }
			if err := json.Unmarshal(p.Settings, &s); err != nil {
				return have, fmt.Errorf("provider address: %w", err)
			}
			have.ManagementIP = s.ProviderAddress
		case hcnVxlanPort:
			var s struct{ Port uint16 }
			if err := json.Unmarshal(p.Settings, &s); err != nil {
				return have, fmt.Errorf("VXLAN port: %w", err)
			}
			have.Port = s.Port
		}
	}
	for _, ipam := range n.Ipams {
		for _, subnet := range ipam.Subnets {
			have.Subnets = append(have.Subnets, subnet.IpAddressPrefix)
			for _, p := range subnet.Policies {
				vni, err := isolationID(p)
				if err != nil {
					return have, err
				}
				if have.VNI == 0 {
					have.VNI = vni
				}
			}
		}
	}
	if have.ManagementIP == "" && n.Type != hcnOverlay {
		ip, err := legacyManagementIP(n.ID)
		if err != nil {
			return have, fmt.Errorf("management IP: %w", err)
		}
		have.ManagementIP = ip
	}
	return have, nil
}

// isolationID is the VNI of a subnet's VSID policy, 0 of any other.
func isolationID(p hcnPolicy) (uint32, error) {
	if p.Type != hcnVSID {
		return 0, nil
	}
	var s hcnVsid
	if err := json.Unmarshal(p.Settings, &s); err != nil {
		return 0, fmt.Errorf("VSID policy: %w", err)
	}
	return s.IsolationId, nil
}

// legacyManagementIP asks the first version of the service's interface, the only
// one that gives the management IP of a bridged network.
func legacyManagementIP(id string) (string, error) {
	if err := hnsCall.Find(); err != nil {
		return "", fmt.Errorf("%w: %w", host.ErrUnsupported, err)
	}
	method, err1 := windows.UTF16PtrFromString("GET")
	path, err2 := windows.UTF16PtrFromString("/networks/" + id)
	request, err3 := windows.UTF16PtrFromString("")
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	var response *uint16
	hr, _, _ := hnsCall.Call(uintptr(unsafe.Pointer(method)), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(request)), uintptr(unsafe.Pointer(&response)))
	if int32(hr) < 0 {
		return "", hresultError(hr)
	}
	text := windows.UTF16PtrToString(response)
	windows.CoTaskMemFree(unsafe.Pointer(response))
	var answer struct {
		Success bool
		Error   string
		Output  struct{ ManagementIP string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return "", err
	}
	if !answer.Success {
		return "", errors.New(answer.Error)
	}
	return answer.Output.ManagementIP, nil
}

// DeleteHNSNetwork removes a network by name. Load balancers go first, then the
// endpoints that they name, then the network: the service keeps what is in use. What has vanished meanwhile
// is not an error.
func (h *Host) DeleteHNSNetwork(ctx context.Context, name string) error {
	const op = "delete HNS network"
	have, err := h.HNSNetwork(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return failed(op, name, deleteNetwork(ctx, have.ID))
}

func deleteNetwork(ctx context.Context, id string) error {
	// All are listed and compared here: the service's filters are not documented.
	endpoints, err := askHNS[hcnEndpoint](ctx, hcnEndpoints)
	if err != nil {
		return fmt.Errorf("list endpoints: %w", err)
	}
	endpoints = slices.DeleteFunc(endpoints, func(e hcnEndpoint) bool {
		return !strings.EqualFold(e.HostComputeNetwork, id)
	})
	if err := deleteEndpoints(ctx, endpoints); err != nil {
		return err
	}
	if err := hcnNetworks.delete(id); err != nil && !vanished(err) {
		return err
	}
	return nil
}

// DeleteHNSEndpoint removes an endpoint by its id, after the load balancers over it.
func (h *Host) DeleteHNSEndpoint(ctx context.Context, id string) error {
	const op = "delete HNS endpoint"
	if ctx.Err() != nil {
		return failed(op, id, context.Cause(ctx))
	}
	return failed(op, id, deleteEndpoints(ctx, []hcnEndpoint{{ID: id}}))
}

// deleteEndpoints removes endpoints, after the load balancers that name them.
func deleteEndpoints(ctx context.Context, endpoints []hcnEndpoint) error {
	balancers, err := askHNS[hcnLoadBalancer](ctx, hcnLoadBalancers)
	if err != nil {
		return fmt.Errorf("list load balancers: %w", err)
	}
	for _, b := range balancers {
		over := slices.ContainsFunc(b.HostComputeEndpoints, func(one string) bool {
			return slices.ContainsFunc(endpoints, func(e hcnEndpoint) bool { return strings.EqualFold(e.ID, one) })
		})
		if !over {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := hcnLoadBalancers.delete(b.ID); err != nil && !vanished(err) {
			return fmt.Errorf("load balancer %s: %w", b.ID, err)
		}
	}
	for _, e := range endpoints {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := hcnEndpoints.delete(e.ID); err != nil && !vanished(err) {
			return fmt.Errorf("endpoint %s: %w", e.ID, err)
		}
	}
	return nil
}
