//go:build windows

package windows

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// PortExcluded binds the port as a node's programs do, on all addresses, and gets WSAEACCES if Windows has
// reserved it (netsh interface ipv4 show excludedportrange). A port that a program uses exclusively fails
// the same way; Listeners names the program
// (learn.microsoft.com/windows/win32/winsock/using-so-reuseaddr-and-so-exclusiveaddruse).
func (h *Host) PortExcluded(ctx context.Context, protocol string, port uint16) (bool, error) {
	const op = "look for an excluded port"
	r := host.PortRange{Protocol: protocol, First: port, Last: port}
	if ctx.Err() != nil {
		return false, failed(op, r.String(), context.Cause(ctx))
	}
	if err := r.Valid(); err != nil {
		return false, failed(op, r.String(), err)
	}
	err := takePort(protocol, int(port))
	if err == nil || errors.Is(err, windows.WSAEADDRINUSE) {
		return false, nil
	}
	if !errors.Is(err, windows.WSAEACCES) {
		return false, failed(op, r.String(), err)
	}
	held, err := h.Listeners(ctx)
	return err == nil && !slices.ContainsFunc(held, func(l host.Listener) bool {
		return l.Protocol == protocol && l.Port == port
	}), err
}

// takePort binds a socket to a port of all addresses, of IPv4 alone where the machine has
// no IPv6, and closes it. It never listens, so the firewall does not prompt anyone.
func takePort(protocol string, port int) error {
	var data windows.WSAData
	if err := windows.WSAStartup(0x202, &data); err != nil { // version 2.2
		return err
	}
	defer windows.WSACleanup() //nolint:errcheck // of this call's own start
	err := bindOnce(protocol, windows.AF_INET6, &windows.SockaddrInet6{Port: port})
	if err == nil || errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES) {
		return err
	}
	return bindOnce(protocol, windows.AF_INET, &windows.SockaddrInet4{Port: port})
}

func bindOnce(protocol string, family int32, address windows.Sockaddr) error {
	kind, number := int32(windows.SOCK_STREAM), int32(windows.IPPROTO_TCP)
	if protocol == "udp" {
		kind, number = windows.SOCK_DGRAM, windows.IPPROTO_UDP
	}
	s, err := windows.WSASocket(family, kind, number, nil, 0, windows.WSA_FLAG_NO_HANDLE_INHERIT)
	if err != nil {
		return err
	}
	defer windows.Closesocket(s) //nolint:errcheck // nothing was sent
	if family == windows.AF_INET6 {
		if err := windows.SetsockoptInt(s, windows.IPPROTO_IPV6, windows.IPV6_V6ONLY, 0); err != nil {
			return err
		}
	}
	return windows.Bind(s, address)
}
