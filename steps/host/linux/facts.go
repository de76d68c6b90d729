//go:build linux

package linux

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// Facts describes the machine. What cannot change while it runs is read once; the
// network is looked at each time.
func (h *Host) Facts(ctx context.Context) (host.Facts, error) {
	const op, subject = "read facts of", "the machine"
	if ctx.Err() != nil {
		return host.Facts{}, failed(op, subject, context.Cause(ctx))
	}
	h.factsMu.Lock()
	defer h.factsMu.Unlock()
	if h.facts == nil {
		f, err := h.fixedFacts()
		if err != nil {
			return host.Facts{}, failed(op, subject, err)
		}
		h.facts = &f
	}
	f := *h.facts
	var err error
	if f.Swap, err = swapBytes("/proc/swaps"); err != nil {
		return host.Facts{}, failed(op, "the swap space", err)
	}
	if f.IPv6, err = host.GlobalIPv6(); err != nil {
		return f, failed(op, "the network", err)
	}
	f.Interface, f.ManagementIP, f.Subnet, err = managementAddress()
	return f, failed(op, "the network", err)
}

func (h *Host) fixedFacts() (host.Facts, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return host.Facts{}, err
	}
	product, err1 := productName("/etc/os-release", "/usr/lib/os-release")
	boot, err2 := bootTime()
	init, err3 := initSystem()
	group, err4 := cgroupVersion("/sys/fs/cgroup")
	resolv, err5 := resolvConf()
	var info unix.Sysinfo_t
	err6 := unix.Sysinfo(&info)
	return host.Facts{
		Init: init, Cgroup: group, ResolvConf: resolv,

		OS: "linux", Arch: archOf(unix.ByteSliceToString(u.Machine[:])), Hostname: unix.ByteSliceToString(u.Nodename[:]),
		Build: unix.ByteSliceToString(u.Release[:]), Product: product, BootTime: boot,
		Admin: os.Geteuid() == 0, DataDir: h.dataDir, CPUs: runtime.NumCPU(),
		Memory: uint64(info.Totalram) * uint64(info.Unit), //nolint:unconvert // other architectures have another type
	}, errors.Join(err1, err2, err3, err4, err5, err6)
}

// archOf is Go's name of the kernel's architecture.
func archOf(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return runtime.GOARCH
}

// productName is PRETTY_NAME of the first file that exists (os-release(5)); a
// machine may have none.
func productName(files ...string) (string, error) {
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(raw)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return unquote(v), nil
			}
		}
		return "", nil
	}
	return "", nil
}

// bootTime is btime of /proc/stat, in seconds (proc_stat(5)).
func bootTime() (time.Time, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Unix(n, 0).UTC(), err
		}
	}
	return time.Time{}, errors.New("/proc/stat has no btime")
}

// managementAddress returns the interface of the default route with its first IPv4
// address and network; all empty if there is no such route.
func managementAddress() (name, ip, subnet string, err error) {
	raw, err := os.ReadFile("/proc/net/route")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv4
		return "", "", "", nil
	}
	if err != nil {
		return "", "", "", err
	}
	if name, err = defaultInterface(raw); err != nil || name == "" {
		return "", "", "", err
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return "", "", "", fmt.Errorf("interface %s: %w", name, err)
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", "", "", fmt.Errorf("interface %s: %w", name, err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			network := net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}
			return name, n.IP.String(), network.String(), nil
		}
	}
	return name, "", "", nil
}

// defaultInterface reads a table like /proc/net/route: the interface of the
// default route that is up and has the lowest metric.
func defaultInterface(table []byte) (string, error) {
	const up, reject = 0x1, 0x200 // RTF_UP, RTF_REJECT of linux/route.h
	name, best := "", uint64(0)
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		flags, err := strconv.ParseUint(f[3], 16, 32)
		if err != nil {
			return "", fmt.Errorf("/proc/net/route: flags: %w", err)
		}
		metric, err := strconv.ParseUint(f[6], 10, 32)
		if err != nil {
			return "", fmt.Errorf("/proc/net/route: metric: %w", err)
		}
		if flags&up != 0 && flags&reject == 0 && (name == "" || metric < best) {
			name, best = f[0], metric
		}
	}
	return name, lines.Err()
}
