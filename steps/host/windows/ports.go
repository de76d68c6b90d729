//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os/exec"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// The ephemeral ports of Windows are read through WMI: class MSFT_NetTCPSetting or MSFT_NetUDPSetting of
// root\StandardCimv2 (learn.microsoft.com/previous-versions/windows/desktop/nettcpipprov). They are written
// by netsh, whose localized output is not parsed: its exit code counts, and what WMI says afterwards. There
// is no documented call for either.

// DynamicPorts returns the ephemeral ports.
func (h *Host) DynamicPorts(ctx context.Context, protocol string) (host.PortRange, error) {
	const op = "read dynamic ports"
	if ctx.Err() != nil {
		return host.PortRange{}, failed(op, protocol, context.Cause(ctx))
	}
	class, known := map[string]string{"tcp": "MSFT_NetTCPSetting", "udp": "MSFT_NetUDPSetting"}[protocol]
	if !known {
		return host.PortRange{}, failed(op, protocol, (host.PortRange{Protocol: protocol}).Valid())
	}
	var out host.PortRange
	err := withCOM(func() (err error) {
		out, err = queryDynamicPorts(class, protocol)
		return err
	})
	var code hresultError
	if errors.As(err, &code) {
		switch code {
		case hresultNotRegistered, hresultNotImplemented, hresultNoMember, wbemInvalidNamespace, wbemInvalidClass,
			wbemProviderAbsent:
			err = fmt.Errorf("%w: WMI does not report them (%w)", host.ErrUnsupported, err)
		}
	}
	return out, failed(op, protocol, err)
}

// queryDynamicPorts asks WMI. There is one instance for each template of settings;
// all that have a range have the same one, as netsh sets it for all.
func queryDynamicPorts(class, protocol string) (host.PortRange, error) {
	var out host.PortRange
	err := query(`root\StandardCimv2`, "SELECT * FROM "+class, func(one object) error {
		r, ok, err := dynamicPortsOf(one, protocol)
		switch {
		case err != nil:
			return err
		case ok && out != (host.PortRange{}) && out != r:
			return fmt.Errorf("WMI gives both %s and %s", out, r)
		case ok:
			out = r
		}
		return nil
	})
	if err == nil && out == (host.PortRange{}) {
		err = fmt.Errorf("%w: WMI does not report them", host.ErrUnsupported)
	}
	return out, err
}

// dynamicPortsOf reads one instance; one may have no range.
func dynamicPortsOf(one object, protocol string) (r host.PortRange, ok bool, err error) {
	first, err1 := property(one, "DynamicPortRangeStartPort")
	count, err2 := property(one, "DynamicPortRangeNumberOfPorts")
	if err := errors.Join(err1, err2); err != nil {
		return r, false, err
	}
	if first == nil || count == nil {
		return r, false, nil
	}
	f, ok1 := first.(int32) // WMI gives a uint16 as VT_I4
	n, ok2 := count.(int32)
	if !ok1 || !ok2 {
		return r, false, fmt.Errorf("the range is of %T and %T", first, count)
	}
	if f == 0 || n == 0 {
		return r, false, nil
	}
	if f < 0 || n < 0 || f+n-1 > 65535 {
		return r, false, fmt.Errorf("the range begins at %d and has %d ports", f, n)
	}
	return host.PortRange{Protocol: protocol, First: uint16(f), Last: uint16(f + n - 1)}, true, nil
}

// SetDynamicPorts changes the ephemeral ports, now and after each boot, for IPv4 and IPv6.
func (h *Host) SetDynamicPorts(ctx context.Context, r host.PortRange) error {
	const op = "set dynamic ports"
	if ctx.Err() != nil {
		return failed(op, r.String(), context.Cause(ctx))
	}
	if err := r.ValidDynamic(); err != nil {
		return failed(op, r.String(), err)
	}
	if _, err := h.DynamicPorts(ctx, r.Protocol); err != nil {
		return failed(op, r.String(), err) // nothing could verify the change
	}
	dir, err := windows.GetSystemDirectory()
	if err != nil {
		return failed(op, r.String(), err)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		program := exec.CommandContext(ctx, filepath.Join(dir, "netsh.exe"),
			"interface", family, "set", "dynamicport", r.Protocol, "start="+strconv.Itoa(int(r.First)),
			"num="+strconv.Itoa(r.Count()))
		if err := program.Run(); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return failed(op, r.String(), fmt.Errorf("netsh for %s: %w", family, err))
		}
	}
	return nil
}

// reservation is a call of iphlpapi.h about a persistent reservation of ports: its
// first port in network order, how many, and its token.
type reservation struct{ tcp, udp *windows.LazyProc }

var (
	createReservation = reservation{iphlpapi.NewProc("CreatePersistentTcpPortReservation"),
		iphlpapi.NewProc("CreatePersistentUdpPortReservation")}
	lookupReservation = reservation{iphlpapi.NewProc("LookupPersistentTcpPortReservation"),
		iphlpapi.NewProc("LookupPersistentUdpPortReservation")}
	deleteReservation = reservation{iphlpapi.NewProc("DeletePersistentTcpPortReservation"),
		iphlpapi.NewProc("DeletePersistentUdpPortReservation")}
)

// call makes the call; token says that it wants the place of one.
func (v reservation) call(r host.PortRange, token bool) error {
	if err := r.Valid(); err != nil {
		return err
	}
	proc := v.tcp
	if r.Protocol == "udp" {
		proc = v.udp
	}
	if err := proc.Find(); err != nil {
		return fmt.Errorf("%w (%w)", host.ErrUnsupported, err)
	}
	args := []uintptr{uintptr(bits.ReverseBytes16(r.First)), uintptr(r.Count())}
	var place uint64
	if token {
		args = append(args, uintptr(unsafe.Pointer(&place)))
	}
	if code, _, _ := proc.Call(args...); code != 0 {
		return windows.Errno(code)
	}
	return nil
}

// PortsReserved reports whether exactly this range is reserved.
func (h *Host) PortsReserved(ctx context.Context, r host.PortRange) (bool, error) {
	const op = "look for reserved ports"
	if ctx.Err() != nil {
		return false, failed(op, r.String(), context.Cause(ctx))
	}
	err := lookupReservation.call(r, true)
	if errors.Is(err, windows.ERROR_NOT_FOUND) || errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
		return false, nil
	}
	return err == nil, failed(op, r.String(), err)
}

// ReservePorts reserves a range, over boots.
func (h *Host) ReservePorts(ctx context.Context, r host.PortRange) error {
	const op = "reserve ports"
	have, err := h.PortsReserved(ctx, r)
	if err != nil || have {
		return failed(op, r.String(), err)
	}
	return failed(op, r.String(), createReservation.call(r, true)) // ERROR_SHARING_VIOLATION: a port of it is taken
}

// ReleasePorts frees a range.
func (h *Host) ReleasePorts(ctx context.Context, r host.PortRange) error {
	const op = "release ports"
	if ctx.Err() != nil {
		return failed(op, r.String(), context.Cause(ctx))
	}
	err := deleteReservation.call(r, false)
	if errors.Is(err, windows.ERROR_NOT_FOUND) || errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
		return nil
	}
	return failed(op, r.String(), err)
}
