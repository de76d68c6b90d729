//go:build windows

package windows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

var (
	iphlpapi             = windows.NewLazySystemDLL("iphlpapi.dll")
	getExtendedTCPTable  = iphlpapi.NewProc("GetExtendedTcpTable")
	getExtendedUDPTable  = iphlpapi.NewProc("GetExtendedUdpTable")
	globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
)

// physicalMemory is the memory that Windows can use, in bytes.
func physicalMemory() (uint64, error) {
	// MEMORYSTATUSEX (sysinfoapi.h)
	status := struct {
		Length, Load                                                   uint32
		TotalPhys, AvailPhys, TotalPage, AvailPage, TotalVirt, Virt, X uint64
	}{}
	status.Length = uint32(unsafe.Sizeof(status))
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return status.TotalPhys, nil
}

// tableTries bounds the calls for a table that grows between two of them.
const tableTries = 10

// Adapters lists the adapters that are up, with their IPv4 addresses.
func (h *Host) Adapters(ctx context.Context) ([]host.Adapter, error) {
	const op, subject = "list", "network adapters"
	if ctx.Err() != nil {
		return nil, failed(op, subject, context.Cause(ctx))
	}
	const (
		flags = windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST | windows.GAA_FLAG_SKIP_DNS_SERVER |
			windows.GAA_FLAG_INCLUDE_GATEWAYS
		loopback = 24     // IF_TYPE_SOFTWARE_LOOPBACK (ipifcons.h)
		dhcp     = 0x0004 // IP_ADAPTER_DHCP_ENABLED (iptypes.h)
	)
	size, err := uint32(15000), error(windows.ERROR_BUFFER_OVERFLOW) // the size that its documentation begins with
	var raw []byte
	for range tableTries {
		if !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) {
			break
		}
		raw = make([]byte, size)
		err = windows.GetAdaptersAddresses(windows.AF_INET, flags, 0, (*windows.IpAdapterAddresses)(unsafe.Pointer(&raw[0])),
			&size)
	}
	out := []host.Adapter{}
	if errors.Is(err, windows.ERROR_NO_DATA) {
		return out, nil
	}
	if err != nil {
		return nil, failed(op, subject, err)
	}
	for a := (*windows.IpAdapterAddresses)(unsafe.Pointer(&raw[0])); a != nil; a = a.Next {
		if a.IfType == loopback || a.OperStatus != windows.IfOperStatusUp {
			continue
		}
		have := host.Adapter{Name: windows.UTF16PtrToString(a.FriendlyName), Gateway: a.FirstGatewayAddress != nil,
			DHCP: a.Flags&dhcp != 0}
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if ip, ok := netip.AddrFromSlice(u.Address.IP()); ok && ip.Unmap().Is4() {
				have.Addresses = append(have.Addresses, netip.PrefixFrom(ip.Unmap(), int(u.OnLinkPrefixLength)).String())
			}
		}
		if len(have.Addresses) > 0 {
			out = append(out, have)
		}
	}
	slices.SortFunc(out, func(a, b host.Adapter) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// The tables that show who holds a port: class TCP_TABLE_OWNER_PID_LISTENER or UDP_TABLE_OWNER_PID
// (iprtrmib.h); a row's size, and the offsets of port and process in it: MIB_TCPROW_OWNER_PID,
// MIB_TCP6ROW_OWNER_PID (tcpmib.h), MIB_UDPROW_OWNER_PID, MIB_UDP6ROW_OWNER_PID (udpmib.h).
var portTables = []struct {
	protocol         string
	call             *windows.LazyProc
	family, class    uintptr
	size, port, proc int
}{
	{"tcp", getExtendedTCPTable, windows.AF_INET, 3, 24, 8, 20},
	{"tcp", getExtendedTCPTable, windows.AF_INET6, 3, 56, 20, 52},
	{"udp", getExtendedUDPTable, windows.AF_INET, 1, 12, 4, 8},
	{"udp", getExtendedUDPTable, windows.AF_INET6, 1, 28, 20, 24},
}

// Listeners lists the ports that programs hold.
func (h *Host) Listeners(ctx context.Context) ([]host.Listener, error) {
	const op, subject = "list", "ports in use"
	out := []host.Listener{}
	for _, t := range portTables {
		if ctx.Err() != nil {
			return nil, failed(op, subject, context.Cause(ctx))
		}
		raw, err := portTable(t.call, t.family, t.class)
		if err != nil {
			return nil, failed(op, subject, fmt.Errorf("%s: %w", t.protocol, err))
		}
		if len(raw) < 4 {
			continue
		}
		n := int(binary.LittleEndian.Uint32(raw))
		for rows := raw[4:]; n > 0 && len(rows) >= t.size; n, rows = n-1, rows[t.size:] {
			out = append(out, host.Listener{Protocol: t.protocol,
				Port: binary.BigEndian.Uint16(rows[t.port:]), // in network order
				PID:  int(binary.LittleEndian.Uint32(rows[t.proc:]))})
		}
	}
	return host.SortListeners(out), nil
}

func portTable(call *windows.LazyProc, family, class uintptr) ([]byte, error) {
	if err := call.Find(); err != nil {
		return nil, fmt.Errorf("%w (%w)", host.ErrUnsupported, err)
	}
	size := uint32(1 << 14)
	for range tableTries {
		raw := make([]byte, size)
		code, _, _ := call.Call(uintptr(unsafe.Pointer(&raw[0])), uintptr(unsafe.Pointer(&size)), 0, family, class, 0)
		switch windows.Errno(code) {
		case windows.ERROR_SUCCESS:
			return raw, nil
		case windows.ERROR_INSUFFICIENT_BUFFER:
			size += 4096 // it may have grown since
		default:
			return nil, windows.Errno(code)
		}
	}
	return nil, errors.New("the table of ports keeps growing")
}
