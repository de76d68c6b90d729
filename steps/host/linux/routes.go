//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"nodejoin/steps/host"
)

// routeTries bounds the calls for a table that changes while it is read.
const routeTries = 10

// Routes lists the kernel's main table; a route with several next hops is one of each.
func (h *Host) Routes(ctx context.Context) ([]host.Route, error) {
	const op, subject = "list", "routes"
	var list []netlink.Route
	err := error(netlink.ErrDumpInterrupted)
	for range routeTries {
		if ctx.Err() != nil {
			return nil, failed(op, subject, context.Cause(ctx))
		}
		if list, err = netlink.RouteList(nil, netlink.FAMILY_ALL); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, failed(op, subject, err)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, failed(op, subject, err)
	}
	names := map[int]string{}
	for _, i := range interfaces {
		names[i.Index] = i.Name
	}
	out := []host.Route{}
	for _, r := range list {
		if r.Family != netlink.FAMILY_V4 && r.Family != netlink.FAMILY_V6 {
			continue
		}
		hops := r.MultiPath
		if len(hops) == 0 {
			hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
		}
		for _, hop := range hops {
			have := host.Route{Destination: destination(r), Gateway: gateway(hop), Interface: names[hop.LinkIndex], Metric: uint32(r.Priority)}
			if have.Interface == "" && hop.LinkIndex != 0 {
				have.Interface = fmt.Sprintf("interface %d", hop.LinkIndex)
			}
			out = append(out, have)
		}
	}
	return host.SortRoutes(out), nil
}

func destination(r netlink.Route) string {
	switch {
	case r.Dst != nil:
		return r.Dst.String()
	case r.Family == netlink.FAMILY_V6:
		return "::/0"
	}
	return "0.0.0.0/0"
}

// gateway is the next router's address, which may be of the other family; "" = none.
func gateway(hop *netlink.NexthopInfo) string {
	ip := hop.Gw
	if via, ok := hop.Via.(*netlink.Via); ok && via != nil {
		ip = via.Addr
	}
	if a, ok := netip.AddrFromSlice(ip); ok {
		return a.Unmap().String()
	}
	return ""
}
