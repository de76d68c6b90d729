//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// Where Windows keeps the name as it is now and as it will be after a boot
// (learn.microsoft.com, "Computer Names": the NetBIOS name has a pair of its own, and
// follows that of DNS).
const (
	tcpipParameters = `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`
	nameNow         = "Hostname"
	nameNext        = "NV Hostname"
)

// HostName reads the machine's name and its membership of a domain.
func (h *Host) HostName(ctx context.Context) (host.HostName, error) {
	const op, subject = "read", "name of the machine"
	if ctx.Err() != nil {
		return host.HostName{}, failed(op, subject, context.Cause(ctx))
	}
	now, err1 := currentName()
	next, err2 := h.RegistryValue(ctx, tcpipParameters, nameNext)
	if errors.Is(err2, fs.ErrNotExist) {
		next.String, err2 = now, nil
	}
	domain, err3 := memberOf()
	return host.HostName{Now: now, Next: next.String, Domain: domain}, failed(op, subject, errors.Join(err1, err2, err3))
}

// currentName is the name that the machine was booted with. os.Hostname returns the physical name, which is
// already the next one if the machine is to be renamed.
func currentName() (string, error) {
	var size uint32 = 64
	for {
		b := make([]uint16, size)
		err := windows.GetComputerNameEx(windows.ComputerNameDnsHostname, &b[0], &size)
		if err == nil {
			return windows.UTF16ToString(b), nil
		}
		if !errors.Is(err, windows.ERROR_MORE_DATA) || int(size) <= len(b) {
			return "", fmt.Errorf("GetComputerNameEx: %w", err)
		}
	}
}

// memberOf is the domain that the machine is a member of; "" = it is in a workgroup.
func memberOf() (string, error) {
	var name *uint16
	var status uint32
	if err := windows.NetGetJoinInformation(nil, &name, &status); err != nil {
		return "", fmt.Errorf("NetGetJoinInformation: %w", err)
	}
	defer windows.NetApiBufferFree((*byte)(unsafe.Pointer(name))) //nolint:errcheck // nothing can be done about it
	if status != windows.NetSetupDomainName {
		return "", nil
	}
	return windows.UTF16PtrToString(name), nil
}

var setComputerNameEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("SetComputerNameExW")

// SetHostName renames the machine from the next boot on, with its NetBIOS name.
func (h *Host) SetHostName(ctx context.Context, name string) error {
	const op = "set host name"
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	if err := host.CheckHostName(name); err != nil {
		return failed(op, name, err)
	}
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return failed(op, name, err)
	}
	ok, _, err := setComputerNameEx.Call(windows.ComputerNamePhysicalDnsHostname, uintptr(unsafe.Pointer(text)))
	if ok != 0 {
		return nil
	}
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) || errors.Is(err, windows.ERROR_INVALID_COMPUTERNAME) {
		err = fmt.Errorf("%w (%w)", fs.ErrInvalid, err)
	}
	return failed(op, name, err)
}
