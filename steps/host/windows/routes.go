//go:build windows

package windows

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

var getIPForwardTable2 = iphlpapi.NewProc("GetIpForwardTable2")

// Routes lists the routing table.
func (h *Host) Routes(ctx context.Context) ([]host.Route, error) {
	const op, subject = "list", "routes"
	if ctx.Err() != nil {
		return nil, failed(op, subject, context.Cause(ctx))
	}
	if err := getIPForwardTable2.Find(); err != nil {
		return nil, failed(op, subject, fmt.Errorf("%w (%w)", host.ErrUnsupported, err))
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, failed(op, subject, err)
	}
	names := map[uint32]string{}
	for _, i := range interfaces {
		names[uint32(i.Index)] = i.Name
	}
	var table *windows.MibIpForwardTable2
	if err := windows.GetIpForwardTable2(windows.AF_UNSPEC, &table); err != nil {
		return nil, failed(op, subject, err)
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	out := []host.Route{}
	for _, row := range table.Rows() {
		r := host.Route{Interface: names[row.InterfaceIndex], Metric: row.Metric}
		if r.Interface == "" {
			r.Interface = fmt.Sprintf("interface %d", row.InterfaceIndex)
		}
		if to := inetAddr(&row.DestinationPrefix.Prefix); to.IsValid() {
			r.Destination = netip.PrefixFrom(to, int(row.DestinationPrefix.PrefixLength)).String()
		}
		if via := inetAddr(&row.NextHop); via.IsValid() && !via.IsUnspecified() {
			r.Gateway = via.String()
		}
		out = append(out, r)
	}
	return host.SortRoutes(out), nil
}

// inetAddr is the address of a SOCKADDR_INET (ws2ipdef.h), not valid without a family.
func inetAddr(a *windows.RawSockaddrInet) netip.Addr {
	switch a.Family {
	case windows.AF_INET:
		return netip.AddrFrom4((*windows.RawSockaddrInet4)(unsafe.Pointer(a)).Addr)
	case windows.AF_INET6:
		return netip.AddrFrom16((*windows.RawSockaddrInet6)(unsafe.Pointer(a)).Addr)
	}
	return netip.Addr{}
}
