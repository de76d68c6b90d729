//go:build windows

package windows

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

var (
	getIPForwardTable2    = iphlpapi.NewProc("GetIpForwardTable2")
	createIPForwardEntry2 = iphlpapi.NewProc("CreateIpForwardEntry2")
)

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

// PutRoute adds a route to the table, which the machine forgets when it boots.
func (h *Host) PutRoute(ctx context.Context, r host.Route) error {
	const op = "add route"
	if ctx.Err() != nil {
		return failed(op, r.String(), context.Cause(ctx))
	}
	to, err := netip.ParsePrefix(r.Destination)
	if err != nil {
		return failed(op, r.String(), fmt.Errorf("%w (%w)", fs.ErrInvalid, err))
	}
	via := netip.IPv4Unspecified()
	if to.Addr().Is6() {
		via = netip.IPv6Unspecified()
	}
	if r.Gateway != "" {
		if via, err = netip.ParseAddr(r.Gateway); err != nil || via.Is4() != to.Addr().Is4() {
			return failed(op, r.String(), fmt.Errorf("%w (its gateway)", fs.ErrInvalid))
		}
	}
	over, err := net.InterfaceByName(r.Interface)
	if err != nil {
		return failed(op, r.String(), fmt.Errorf("%w (%w)", fs.ErrNotExist, err))
	}
	if err := createIPForwardEntry2.Find(); err != nil {
		return failed(op, r.String(), fmt.Errorf("%w (%w)", host.ErrUnsupported, err))
	}
	const infinite = 0xffffffff // seconds, as InitializeIpForwardEntry sets them
	row := windows.MibIpForwardRow2{InterfaceIndex: uint32(over.Index), Metric: r.Metric,
		Protocol: windows.MIB_IPPROTO_NETMGMT, ValidLifetime: infinite, PreferredLifetime: infinite}
	row.DestinationPrefix.PrefixLength = uint8(to.Bits())
	setInetAddr(&row.DestinationPrefix.Prefix, to.Addr())
	setInetAddr(&row.NextHop, via)
	status, _, _ := createIPForwardEntry2.Call(uintptr(unsafe.Pointer(&row)))
	if status == 0 || windows.Errno(status) == windows.ERROR_OBJECT_ALREADY_EXISTS {
		return nil
	}
	return failed(op, r.String(), windows.Errno(status))
}

// setInetAddr puts an address into a SOCKADDR_INET.
func setInetAddr(to *windows.RawSockaddrInet, a netip.Addr) {
	if a.Is4() {
		*(*windows.RawSockaddrInet4)(unsafe.Pointer(to)) = windows.RawSockaddrInet4{Family: windows.AF_INET, Addr: a.As4()}
		return
	}
	*(*windows.RawSockaddrInet6)(unsafe.Pointer(to)) = windows.RawSockaddrInet6{Family: windows.AF_INET6, Addr: a.As16()}
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
