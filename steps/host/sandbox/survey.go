package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// RegistryNames returns the names below a key, in lower case, as they are stored.
func (h *Host) RegistryNames(ctx context.Context, key string) (keys, values []string, err error) {
	if _, err := h.ask(ctx, "RegistryNames", key); err != nil {
		return nil, nil, err
	}
	err = h.view(ctx, "read registry key", key, func(s *state) error {
		k, err := h.registryKey(key)
		if err != nil {
			return err
		}
		below := map[string]bool{}
		for have := range s.Registry {
			if rest, ok := strings.CutPrefix(have, k+`\`); ok {
				first, _, _ := strings.Cut(rest, `\`)
				below[first] = true
			}
		}
		keys, values = slices.Sorted(maps.Keys(below)), slices.Sorted(maps.Keys(s.Registry[k]))
		if s.Registry[k] == nil && len(keys) == 0 {
			return fs.ErrNotExist
		}
		return nil
	})
	return keys, values, err
}

// HNSNetworks lists flanneld's networks and those of the quirks.
func (h *Host) HNSNetworks(ctx context.Context) ([]host.HNSNetwork, error) {
	q, err := h.ask(ctx, "HNSNetworks", "HNS networks")
	if err != nil {
		return nil, err
	}
	out := append([]host.HNSNetwork{}, q.Networks...)
	err = h.view(ctx, "list", "HNS networks", func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		for _, n := range s.Networks {
			out = append(out, copied(n))
		}
		return nil
	})
	slices.SortFunc(out, func(a, b host.HNSNetwork) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// Adapters lists the machine's one adapter, or those of the quirks.
func (h *Host) Adapters(ctx context.Context) (list []host.Adapter, err error) {
	const subject = "network adapters"
	if _, err := h.ask(ctx, "Adapters", subject); err != nil {
		return nil, err
	}
	err = h.view(ctx, "list", subject, func(s *state) error {
		list, err = h.adapters(s)
		return err
	})
	return list, err
}

// HNSEndpoints lists those of pods and of the quirks.
func (h *Host) HNSEndpoints(ctx context.Context) ([]host.HNSEndpoint, error) {
	const subject = "HNS endpoints"
	q, err := h.ask(ctx, "HNSEndpoints", subject)
	if err == nil && !h.windows() {
		err = failed("list", subject, host.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	out := append([]host.HNSEndpoint{}, q.Endpoints...)
	err = h.view(ctx, "list", subject, func(s *state) error {
		out = append(out, copied(s.Endpoints)...)
		return nil
	})
	return host.SortEndpoints(out), err
}

// HNSLoadBalancers lists those of the quirks.
func (h *Host) HNSLoadBalancers(ctx context.Context) ([]host.HNSLoadBalancer, error) {
	const subject = "HNS load balancers"
	q, err := h.ask(ctx, "HNSLoadBalancers", subject)
	if err == nil && !h.windows() {
		err = failed("list", subject, host.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	return host.SortLoadBalancers(append([]host.HNSLoadBalancer{}, q.LoadBalancers...)), nil
}

// Routes lists the routes that programs have created and those of the adapters: one to the network of each
// adapter and, if the adapter has a default route, one through the first address of its network.
func (h *Host) Routes(ctx context.Context) ([]host.Route, error) {
	const subject = "routes"
	if _, err := h.ask(ctx, "Routes", subject); err != nil {
		return nil, err
	}
	adapters, err := h.Adapters(ctx)
	if err != nil {
		return nil, err
	}
	out := []host.Route{}
	if err := h.view(ctx, "list", subject, func(s *state) error {
		out = append(out, s.Routes...)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, a := range adapters {
		for i, text := range a.Addresses {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, failed("list", subject, fmt.Errorf("adapter %s (quirks.json): %w", a.Name, err))
			}
			p = p.Masked()
			out = append(out, host.Route{Destination: p.String(), Interface: a.Name})
			if a.Gateway && i == 0 {
				out = append(out, host.Route{Destination: "0.0.0.0/0", Gateway: p.Addr().Next().String(), Interface: a.Name})
			}
		}
	}
	return host.SortRoutes(out), nil
}

// Listeners lists the ports of the simulated programs and those of the quirks.
func (h *Host) Listeners(ctx context.Context) ([]host.Listener, error) {
	q, err := h.ask(ctx, "Listeners", "ports in use")
	if err != nil {
		return nil, err
	}
	out := append([]host.Listener{}, q.Listeners...)
	err = h.view(ctx, "list", "ports in use", func(s *state) error {
		for port, of := range map[uint16]string{10248: kubelet, 10250: kubelet, 10256: kubeProxy, 10249: kubeProxy} {
			if h.running(s, of) {
				out = append(out, host.Listener{Protocol: "tcp", Port: port})
			}
		}
		if port, err := strconv.ParseUint(h.exporterPort(s), 10, 16); err == nil {
			out = append(out, host.Listener{Protocol: "tcp", Port: uint16(port)})
		}
		return nil
	})
	return host.SortListeners(out), err
}

// ProbeAPI simulates the connection to an API server. It succeeds unless the quirks say otherwise.
func (h *Host) ProbeAPI(ctx context.Context, address string) (host.APIAnswer, error) {
	q, err := h.ask(ctx, "ProbeAPI", address)
	if err != nil {
		return host.APIAnswer{}, err
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		err = fmt.Errorf("%w: %q is not an https address", fs.ErrInvalid, address)
	case q.API == "name":
		err = fmt.Errorf("%w: %s", host.ErrNameUnknown, u.Hostname())
	case q.API != "":
		err = errors.New(q.API)
	}
	if err != nil {
		return host.APIAnswer{}, failed("ask", address, err)
	}
	now := time.Now().UTC()
	return host.APIAnswer{Date: now.Truncate(time.Second), Clock: now.Add(q.ClockSkew), Certificates: q.APICertificates},
		nil
}

// ProbeTCP simulates a connection to another machine. It succeeds unless the quirks say otherwise.
func (h *Host) ProbeTCP(ctx context.Context, address string) error {
	q, err := h.ask(ctx, "ProbeTCP", address)
	if err != nil {
		return err
	}
	name, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	case q.TCP == "name":
		err = fmt.Errorf("%w: %s", host.ErrNameUnknown, name)
	case q.TCP != "":
		err = fmt.Errorf("%w: %s", host.ErrNoAnswer, q.TCP)
	}
	return failed("connect to", address, err)
}

// Events are those of the quirks.
func (h *Host) Events(ctx context.Context, channel string, sources []string, most int) ([]host.Event, error) {
	const op = "read event log"
	if err := host.CheckEvents(channel, sources, most); err != nil {
		return nil, failed(op, channel, err)
	}
	q, err := h.ask(ctx, "Events", channel)
	if err != nil {
		return nil, err
	}
	if !h.windows() {
		return nil, failed(op, channel, host.ErrUnsupported)
	}
	known, ok := q.Events[channel]
	if !ok && channel != "System" && channel != "Application" {
		return nil, failed(op, channel, fs.ErrNotExist)
	}
	out := []host.Event{}
	for _, e := range known {
		if slices.ContainsFunc(sources, func(s string) bool { return strings.EqualFold(s, e.Source) }) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b host.Event) int { return b.Time.Compare(a.Time) })
	return out[:min(len(out), most)], nil
}
