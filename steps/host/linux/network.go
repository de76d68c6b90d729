//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"nodejoin/steps/host"
)

// Adapters lists the interfaces that are up, with their IPv4 addresses.
func (h *Host) Adapters(ctx context.Context) ([]host.Adapter, error) {
	const op, subject = "list", "network interfaces"
	if ctx.Err() != nil {
		return nil, failed(op, subject, context.Cause(ctx))
	}
	gateways, err := defaultRoutes("/proc/net/route")
	if err != nil {
		return nil, failed(op, subject, err)
	}
	list, err := net.Interfaces()
	if err != nil {
		return nil, failed(op, subject, err)
	}
	out := []host.Adapter{}
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, failed(op, subject, fmt.Errorf("%s: %w", i.Name, err))
		}
		a := host.Adapter{Name: i.Name, Gateway: gateways[i.Name]}
		for _, addr := range addrs {
			if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr().Is4() {
				a.Addresses = append(a.Addresses, p.String())
			}
		}
		if len(a.Addresses) > 0 {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b host.Adapter) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// defaultRoutes names the interfaces with an IPv4 default route that is up: in the
// kernel's table, a route to 00000000 with mask 00000000 and flag RTF_UP, 1
// (include/uapi/linux/route.h).
func defaultRoutes(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		if flags, err := strconv.ParseUint(f[3], 16, 32); err == nil && flags&1 != 0 {
			out[f[0]] = true
		}
	}
	return out, nil
}

// Listeners lists the ports that sockets of this network namespace hold: in the
// kernel's tables, TCP sockets in state 0A (TCP_LISTEN, include/net/tcp_states.h) and all
// UDP sockets without a peer. It does not find their processes.
func (h *Host) Listeners(ctx context.Context) ([]host.Listener, error) {
	const op, subject = "list", "ports in use"
	out := []host.Listener{}
	for _, protocol := range []string{"tcp", "tcp6", "udp", "udp6"} {
		if ctx.Err() != nil {
			return nil, failed(op, subject, context.Cause(ctx))
		}
		raw, err := os.ReadFile("/proc/net/" + protocol)
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(protocol, "6") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, failed(op, subject, err)
		}
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if len(f) < 4 || !strings.HasSuffix(f[0], ":") {
				continue
			}
			_, port, _ := strings.Cut(f[1], ":")
			_, peer, _ := strings.Cut(f[2], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil || peer != "0000" || protocol[:3] == "tcp" && f[3] != "0A" {
				continue
			}
			out = append(out, host.Listener{Protocol: protocol[:3], Port: uint16(n)})
		}
	}
	return host.SortListeners(out), nil
}
