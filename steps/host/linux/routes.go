//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// routeTries bounds the calls for a table that changes while it is read.
const routeTries = 10

// Routes lists the kernel's main table; a route with several next hops is one of each.
func (h *Host) Routes(ctx context.Context) ([]host.Route, error) {
	out := []host.Route{}
	err := eachRoute(ctx, func(r netlink.Route, hops []host.Route) error {
		out = append(out, hops...)
		return nil
	})
	if err != nil {
		return nil, failed("list", "routes", err)
	}
	return host.SortRoutes(out), nil
}

// DeleteRoutes removes routes of the kernel's main table; one with several next hops only if all of them
// are to be removed.
func (h *Host) DeleteRoutes(ctx context.Context, routes []host.Route) error {
	return failed("delete", "routes", eachRoute(ctx, func(r netlink.Route, hops []host.Route) error {
		if slices.ContainsFunc(hops, func(have host.Route) bool { return !slices.Contains(routes, have) }) {
			return nil
		}
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) { // no such route
			return err
		}
		return nil
	}))
}

// PutRoute is host.ErrUnsupported.
func (h *Host) PutRoute(ctx context.Context, r host.Route) error {
	if ctx.Err() != nil {
		return failed("add route", r.String(), context.Cause(ctx))
	}
	return failed("add route", r.String(), host.ErrUnsupported)
}

// eachRoute calls f with each route of the main table, and with what Routes says of it.
func eachRoute(ctx context.Context, f func(netlink.Route, []host.Route) error) error {
	var list []netlink.Route
	err := error(netlink.ErrDumpInterrupted)
	for range routeTries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if list, err = netlink.RouteList(nil, netlink.FAMILY_ALL); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return err
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	names := map[int]string{}
	for _, i := range interfaces {
		names[i.Index] = i.Name
	}
	for _, r := range list {
		if r.Family != netlink.FAMILY_V4 && r.Family != netlink.FAMILY_V6 {
			continue
		}
		next := r.MultiPath
		if len(next) == 0 {
			next = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
		}
		var hops []host.Route
		for _, hop := range next {
			have := host.Route{Destination: destination(r), Gateway: gateway(hop), Interface: names[hop.LinkIndex],
				Metric: uint32(r.Priority)}
			if have.Interface == "" && hop.LinkIndex != 0 {
				have.Interface = fmt.Sprintf("interface %d", hop.LinkIndex)
			}
			hops = append(hops, have)
		}
		if err := f(r, hops); err != nil {
			return err
		}
	}
	return nil
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
