// Package sandbox is a machine in a folder: files are real files below it, and services, registry, environment,
// firewall rules and HNS networks are kept in a state file beside them. It refuses what Windows refuses, so
// that a plan does not work here by luck. It simulates the few programs that a join waits for (containerd,
// dockerd, kubelet, flanneld, kube-proxy), so that a plan converges without a real cluster.
//
// After each call all state is in files: a process may be killed at any time, and several processes may use the
// same folder. Nothing is synced to disk, so a power failure may lose the last calls.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"nodejoin/steps/host"
)

var _ host.Host = (*Host)(nil)

// Open opens the machine below c.Path and creates it if it is missing. If another process uses it, Open waits
// until ctx ends.
func Open(ctx context.Context, c Config) (*Host, error) {
	if c.Path == "" {
		return nil, errors.New("sandbox: no path")
	}
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	c.Path = path
	switch c.OS {
	case "", "windows":
		c.OS = "windows"
		c.Build = or(c.Build, "10.0.20348")
		c.DataDir = or(c.DataDir, `C:\ProgramData\nodejoin`)
	case "linux":
		c.Build = or(c.Build, "6.12.0")
		c.DataDir = or(c.DataDir, "/var/lib/nodejoin")
	default:
		return nil, fmt.Errorf("sandbox: operating system %q is neither windows nor linux", c.OS)
	}
	c.Arch = or(c.Arch, "amd64")
	c.Hostname = or(c.Hostname, filepath.Base(path))
	ip, err := netip.ParseAddr(or(c.IP, "192.0.2.10"))
	if err != nil || !ip.Is4() {
		return nil, fmt.Errorf("sandbox: %q is not an IPv4 address", c.IP)
	}
	c.IP = ip.String()
	prefix, err := ip.Prefix(24)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	h := &Host{cfg: c, prefix: prefix}
	if _, err := h.elements(c.DataDir); err != nil {
		return nil, fmt.Errorf("sandbox: data folder %s: %w", c.DataDir, err)
	}
	if err := os.MkdirAll(filepath.Join(path, stateDir), 0o755); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	h.state = h.openState()
	made := false
	err = h.state.view(ctx, func(c contents) error {
		s := c.(*state)
		made = !s.BootTime.IsZero() && (s.Factory || !h.windows())
		return nil
	})
	if err == nil && !made {
		err = h.change(ctx, func(s *state) error { return h.make(ctx, s) })
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", path, err)
	}
	return h, nil
}

// make initializes a new machine.
func (h *Host) make(ctx context.Context, s *state) error {
	if s.BootTime.IsZero() {
		// The machine booted before the first run looks at it: if that run were killed, the next one would
		// otherwise see a boot since then.
		s.BootTime = time.Now().UTC().Add(-time.Minute).Truncate(time.Second)
		if err := h.install(ctx, s); err != nil {
			return err
		}
	}
	if h.windows() {
		return h.furnish(s)
	}
	return nil
}

// install puts programs on a new Linux machine that a distribution has and a node needs. They never run.
func (h *Host) install(ctx context.Context, s *state) error {
	if h.windows() {
		return nil
	}
	for _, program := range []string{"iptables", "nft"} {
		if err := h.write(ctx, s, "/usr/sbin/"+program, "stand-in: a sandbox has no packets to filter\n",
			host.AccessProgram); err != nil {
			return err
		}
	}
	return nil
}

// LockDir is a folder on this computer, beside the machine, for the lock of its runs.
func (h *Host) LockDir() string { return filepath.Join(h.cfg.Path, stateDir) }

// Facts returns the machine as configured. Its boot time is that of the first Open or the last Reboot.
func (h *Host) Facts(ctx context.Context) (host.Facts, error) {
	f := host.Facts{OS: h.cfg.OS, Arch: h.cfg.Arch, Hostname: h.cfg.Hostname, Build: h.cfg.Build, Product: h.product(),
		ManagementIP: h.cfg.IP, Interface: "Ethernet", Subnet: h.prefix.Masked().String(), Admin: true,
		DataDir: h.cfg.DataDir}
	if h.cfg.IP6 != "" {
		f.IPv6 = []string{h.cfg.IP6}
	}
	if !h.windows() {
		f.Interface, f.Init, f.Cgroup, f.ResolvConf = "eth0", "systemd", "v2", "/etc/resolv.conf"
	}
	q, err := h.ask(ctx, "Facts", "facts")
	if err != nil {
		return f, err
	}
	f.Memory, f.CPUs, f.Swap, f.Admin = q.Memory, q.CPUs, q.Swap, !q.NoAdmin
	f.Cgroup = or(q.Cgroup, f.Cgroup)
	err = h.view(ctx, "read facts", h.cfg.Hostname, func(s *state) error {
		f.BootTime, f.Hostname = s.BootTime, h.hostName(s, q).Now
		return nil
	})
	return f, err
}
