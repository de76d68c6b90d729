//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// initSystem is "systemd" if that is the running service manager, checked as sd_booted(3) does; else "".
func initSystem() (string, error) {
	info, err := os.Lstat("/run/systemd/system")
	if errors.Is(absent(err), fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || !info.IsDir() {
		return "", err
	}
	return "systemd", nil
}

// cgroupVersion checks the file system at dir, as the kubelet does (cgroups(7)); "" if nothing is mounted.
func cgroupVersion(dir string) (string, error) {
	var s unix.Statfs_t
	err := ignoringEINTR(func() error { return unix.Statfs(dir, &s) })
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	switch int64(s.Type) { //nolint:unconvert // other architectures have another type
	case unix.CGROUP2_SUPER_MAGIC:
		return "v2", nil
	case unix.TMPFS_MAGIC, unix.CGROUP_SUPER_MAGIC: // the hierarchies are folders of a tmpfs
		return "v1", nil
	}
	return "", nil
}

// swapBytes sums the sizes of /proc/swaps, which are in KiB (proc_swaps(5)); a kernel
// without swap has no such file. Compressed memory (zram) counts, as for the kubelet.
func swapBytes(file string) (uint64, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var sum uint64
	for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) == 0 {
			continue // the headline
		}
		if len(f) < 5 {
			return 0, fmt.Errorf("%s: line %d has %d fields", file, i+1, len(f))
		}
		n, err := strconv.ParseUint(f[len(f)-3], 10, 54) // names may hold blanks, what follows does not
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += n << 10
	}
	return sum, nil
}

// resolvConf is the file that pods resolve names with: if systemd-resolved has its stub on a loopback
// address, which no pod reaches, its own list of servers (systemd-resolved.service(8), "/etc/resolv.conf").
func resolvConf() (string, error) {
	const plain, resolved = "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"
	if _, err := os.Stat(resolved); errors.Is(absent(err), fs.ErrNotExist) {
		return plain, nil
	} else if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(plain)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" && strings.HasPrefix(f[1], "127.0.0.5") {
			return resolved, nil
		}
	}
	return plain, nil
}
