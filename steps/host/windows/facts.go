//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"nodejoin/steps/host"
)

// Facts describes the machine. What cannot change while it runs is read once;
// the network is looked at each time.
func (h *Host) Facts(ctx context.Context) (host.Facts, error) {
	const op = "read facts of"
	if ctx.Err() != nil {
		return host.Facts{}, failed(op, "the machine", context.Cause(ctx))
	}
	h.factsMu.Lock()
	defer h.factsMu.Unlock()
	if h.facts == nil {
		facts, err := h.fixedFacts()
		if err != nil {
			return host.Facts{}, failed(op, "the machine", err)
		}
		h.facts = &facts
	}
	facts := *h.facts
	var err error
	if facts.IPv6, err = host.GlobalIPv6(); err != nil {
		return facts, failed(op, "the network", err)
	}
	facts.ManagementIP, facts.Interface, facts.Subnet, err = managementAddress()
	return facts, failed(op, "the network", err)
}

func (h *Host) fixedFacts() (host.Facts, error) {
	name, err1 := currentName()
	build, product, err2 := version()
	boot, err3 := bootTime()
	admin, err4 := isAdmin()
	memory, err5 := physicalMemory()
	return host.Facts{
		OS: "windows", Arch: nativeArch(), Hostname: name, Build: build, Product: product,
		BootTime: boot, Admin: admin, DataDir: h.dataDir, Memory: memory, CPUs: runtime.NumCPU(),
	}, errors.Join(err1, err2, err3, err4, err5)
}

// version reads the build from the registry, which is right even for a program in compatibility mode.
func version() (build, product string, err error) {
	k, err := openKey(`HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`, registry.QUERY_VALUE)
	if err != nil {
		return "", "", err
	}
	defer k.Close()
	if product, _, err = k.GetStringValue("ProductName"); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return "", "", err
	}
	number, _, err := k.GetStringValue("CurrentBuildNumber")
	if err != nil {
		return "", "", fmt.Errorf("build number: %w", err)
	}
	v := windows.RtlGetVersion()
	return fmt.Sprintf("%d.%d.%s", v.MajorVersion, v.MinorVersion, number), product, nil
}

// nativeArch is the machine's architecture, also where this program is emulated.
func nativeArch() string {
	const amd64, arm64 = 0x8664, 0xaa64 // IMAGE_FILE_MACHINE_*
	var process, native uint16
	if err := windows.IsWow64Process2(windows.CurrentProcess(), &process, &native); err == nil {
		switch native {
		case amd64:
			return "amd64"
		case arm64:
			return "arm64"
		}
	}
	return runtime.GOARCH
}

// bootTime is when the kernel started, by the clock at that moment. If the clock is set, Windows moves its
// boot time along and adds the step to the bias; minus the bias, the value never changes.
func bootTime() (time.Time, error) {
	// SYSTEM_TIMEOFDAY_INFORMATION: boot and current time in 100 ns since 1601.
	var info struct {
		BootTime, CurrentTime, TimeZoneBias int64
		TimeZoneID, Reserved                uint32
		BootTimeBias, SleepTimeBias         uint64
	}
	err := windows.NtQuerySystemInformation(windows.SystemTimeOfDayInformation, unsafe.Pointer(&info),
		uint32(unsafe.Sizeof(info)), nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("boot time: %w", err)
	}
	boot := info.BootTime - int64(info.BootTimeBias)
	t := windows.Filetime{LowDateTime: uint32(boot), HighDateTime: uint32(boot >> 32)}
	return time.Unix(0, t.Nanoseconds()).UTC(), nil
}

// managementAddress returns the first IPv4 address of the interface of the default route; all empty if
// there is no such route.
func managementAddress() (ip, name, subnet string, err error) {
	// TEST-NET-3 (RFC 5737): only the default route leads there.
	var index uint32
	err = windows.GetBestInterfaceEx(&windows.SockaddrInet4{Addr: [4]byte{203, 0, 113, 1}}, &index)
	if errors.Is(err, windows.ERROR_NETWORK_UNREACHABLE) || errors.Is(err, windows.ERROR_HOST_UNREACHABLE) {
		return "", "", "", nil
	}
	if err != nil {
		return "", "", "", err
	}
	i, err := net.InterfaceByIndex(int(index))
	if err != nil {
		return "", "", "", err
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", "", "", err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			network := net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}
			return n.IP.String(), i.Name, network.String(), nil
		}
	}
	return "", i.Name, "", nil
}
