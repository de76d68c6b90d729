//go:build linux

package linux

import (
	"context"

	"nodejoin/steps/host"
	"nodejoin/steps/host/cri"
	"nodejoin/steps/host/probe"
)

// ProbeHTTP asks a program of this machine over http.
func (h *Host) ProbeHTTP(ctx context.Context, url string) (int, error) {
	status, err := probe.HTTP(ctx, url)
	return status, failed("ask", url, err)
}

// ProbePipe connects to a unix socket and, with a grpcMethod, makes that call.
func (h *Host) ProbePipe(ctx context.Context, address, grpcMethod string) error {
	return failed("connect to", address, probe.Pipe(ctx, probe.Unix, address, grpcMethod))
}

// Pods lists the pods of a container runtime.
func (h *Host) Pods(ctx context.Context, address string) ([]host.Pod, error) {
	pods, err := cri.Runtime{Dial: probe.Unix, Address: address}.Pods(ctx)
	return pods, failed("list pods of", address, err)
}

// Images lists the images of a container runtime.
func (h *Host) Images(ctx context.Context, address string) ([]host.Image, error) {
	images, err := cri.Runtime{Dial: probe.Unix, Address: address}.Images(ctx)
	return images, failed("list images of", address, err)
}

// Image is an image of a container runtime.
func (h *Host) Image(ctx context.Context, address, name string) (*host.Image, error) {
	image, err := cri.Runtime{Dial: probe.Unix, Address: address}.Image(ctx, name)
	return image, failed("ask for image", name, err)
}

// PullImage has a container runtime pull an image.
func (h *Host) PullImage(ctx context.Context, address, name string) error {
	return failed("pull image", name, cri.Runtime{Dial: probe.Unix, Address: address}.Pull(ctx, name))
}

// RemovePod stops and removes a pod of a container runtime.
func (h *Host) RemovePod(ctx context.Context, address, id string) error {
	return failed("remove pod", id, cri.Runtime{Dial: probe.Unix, Address: address}.Remove(ctx, id))
}

// ProbeAPI asks an API server from this machine.
func (h *Host) ProbeAPI(ctx context.Context, url string) (host.APIAnswer, error) {
	answer, err := probe.API(ctx, url)
	return answer, failed("ask", url, err)
}

// ProbeTCP connects to another machine from this one.
func (h *Host) ProbeTCP(ctx context.Context, address string) error {
	return failed("connect to", address, probe.TCP(ctx, address))
}

// unsupported answers for what only Windows has.
func unsupported(ctx context.Context, op, subject string) error {
	if ctx.Err() != nil {
		return failed(op, subject, context.Cause(ctx))
	}
	return failed(op, subject, host.ErrUnsupported)
}

// RegistryValue is host.ErrUnsupported.
func (h *Host) RegistryValue(ctx context.Context, key, name string) (host.RegistryValue, error) {
	return host.RegistryValue{}, unsupported(ctx, "read registry value", key+`\`+name)
}

// Events is host.ErrUnsupported.
func (h *Host) Events(ctx context.Context, channel string, sources []string, most int) ([]host.Event, error) {
	if err := host.CheckEvents(channel, sources, most); err != nil {
		return nil, failed("read event log", channel, err)
	}
	return nil, unsupported(ctx, "read event log", channel)
}

// RegistryNames is host.ErrUnsupported.
func (h *Host) RegistryNames(ctx context.Context, key string) (keys, values []string, err error) {
	return nil, nil, unsupported(ctx, "read registry key", key)
}

// SetRegistryValue is host.ErrUnsupported.
func (h *Host) SetRegistryValue(ctx context.Context, key, name string, _ host.RegistryValue) error {
	return unsupported(ctx, "set registry value", key+`\`+name)
}

// DeleteRegistryKey is host.ErrUnsupported.
func (h *Host) DeleteRegistryKey(ctx context.Context, key string) error {
	return unsupported(ctx, "delete registry key", key)
}

// DeleteRegistryValue is host.ErrUnsupported.
func (h *Host) DeleteRegistryValue(ctx context.Context, key, name string) error {
	return unsupported(ctx, "delete registry value", key+`\`+name)
}

// FirewallRule is host.ErrUnsupported.
func (h *Host) FirewallRule(ctx context.Context, name string) (host.FirewallRule, error) {
	return host.FirewallRule{}, unsupported(ctx, "read firewall rule", name)
}

// PutFirewallRule is host.ErrUnsupported.
func (h *Host) PutFirewallRule(ctx context.Context, r host.FirewallRule) error {
	return unsupported(ctx, "put firewall rule", r.Name)
}

// DeleteFirewallRule is host.ErrUnsupported.
func (h *Host) DeleteFirewallRule(ctx context.Context, name string) error {
	return unsupported(ctx, "delete firewall rule", name)
}

// DynamicPorts is host.ErrUnsupported.
func (h *Host) DynamicPorts(ctx context.Context, protocol string) (host.PortRange, error) {
	return host.PortRange{}, unsupported(ctx, "read dynamic ports", protocol)
}

// SetDynamicPorts is host.ErrUnsupported.
func (h *Host) SetDynamicPorts(ctx context.Context, r host.PortRange) error {
	return unsupported(ctx, "set dynamic ports", r.String())
}

// PortsReserved is host.ErrUnsupported.
func (h *Host) PortsReserved(ctx context.Context, r host.PortRange) (bool, error) {
	return false, unsupported(ctx, "look for reserved ports", r.String())
}

// PortExcluded is host.ErrUnsupported: programs may ask for the ports in ip_local_reserved_ports.
func (h *Host) PortExcluded(ctx context.Context, protocol string, port uint16) (bool, error) {
	return false, unsupported(ctx, "look for an excluded port",
		(host.PortRange{Protocol: protocol, First: port, Last: port}).String())
}

// ReservePorts is host.ErrUnsupported.
func (h *Host) ReservePorts(ctx context.Context, r host.PortRange) error {
	return unsupported(ctx, "reserve ports", r.String())
}

// ReleasePorts is host.ErrUnsupported.
func (h *Host) ReleasePorts(ctx context.Context, r host.PortRange) error {
	return unsupported(ctx, "release ports", r.String())
}

// HNSNetwork is host.ErrUnsupported.
func (h *Host) HNSNetwork(ctx context.Context, name string) (host.HNSNetwork, error) {
	return host.HNSNetwork{}, unsupported(ctx, "read HNS network", name)
}

// CreateHNSNetwork is host.ErrUnsupported.
func (h *Host) CreateHNSNetwork(ctx context.Context, n host.HNSNetworkConfig) error {
	return unsupported(ctx, "create HNS network", n.Name)
}

// DeleteHNSNetwork is host.ErrUnsupported.
func (h *Host) DeleteHNSNetwork(ctx context.Context, name string) error {
	return unsupported(ctx, "delete HNS network", name)
}

// HNSNetworks is host.ErrUnsupported.
func (h *Host) HNSNetworks(ctx context.Context) ([]host.HNSNetwork, error) {
	return nil, unsupported(ctx, "list", "HNS networks")
}

// DeleteHNSEndpoint is host.ErrUnsupported.
func (h *Host) DeleteHNSEndpoint(ctx context.Context, id string) error {
	return unsupported(ctx, "delete HNS endpoint", id)
}

// HNSEndpoints is host.ErrUnsupported.
func (h *Host) HNSEndpoints(ctx context.Context) ([]host.HNSEndpoint, error) {
	return nil, unsupported(ctx, "list", "HNS endpoints")
}

// HNSLoadBalancers is host.ErrUnsupported.
func (h *Host) HNSLoadBalancers(ctx context.Context) ([]host.HNSLoadBalancer, error) {
	return nil, unsupported(ctx, "list", "HNS load balancers")
}
