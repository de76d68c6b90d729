package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// hives are the roots of the registry, with their short names.
var hives = map[string]string{"HKEY_LOCAL_MACHINE": "HKLM", "HKEY_USERS": "HKU", "HKEY_CLASSES_ROOT": "HKCR",
	"HKEY_CURRENT_USER": "HKCU", "HKEY_CURRENT_CONFIG": "HKCC", "HKLM": "HKLM", "HKU": "HKU", "HKCR": "HKCR",
	"HKCU": "HKCU", "HKCC": "HKCC"}

// registryKey returns the form in which a key is stored.
func (h *Host) registryKey(key string) (string, error) {
	if !h.windows() {
		return "", host.ErrUnsupported
	}
	root, rest, _ := strings.Cut(key, `\`)
	short, ok := hives[strings.ToUpper(root)]
	rest = strings.Trim(rest, `\`)
	if !ok || rest == "" {
		return "", fmt.Errorf(`%w: %q is not a registry key like HKLM\SOFTWARE\Name`, fs.ErrInvalid, key)
	}
	return strings.ToLower(short + `\` + rest), nil
}

// RegistryValue reads a registry value.
func (h *Host) RegistryValue(ctx context.Context, key, name string) (host.RegistryValue, error) {
	var out host.RegistryValue
	if _, err := h.ask(ctx, "RegistryValue "+key, key+`\`+name); err != nil {
		return out, err
	}
	err := h.view(ctx, "read registry value", key+`\`+name, func(s *state) error {
		k, err := h.registryKey(key)
		if err != nil {
			return err
		}
		v, ok := s.Registry[k][h.fold(name)]
		if !ok {
			return fs.ErrNotExist
		}
		out = copied(v)
		return nil
	})
	return out, err
}

// SetRegistryValue writes a registry value. Only the data field of its type is stored.
func (h *Host) SetRegistryValue(ctx context.Context, key, name string, v host.RegistryValue) error {
	return failed("set registry value", key+`\`+name, h.change(ctx, func(s *state) error {
		k, err := h.registryKey(key)
		if err != nil {
			return err
		}
		kept := host.RegistryValue{Type: v.Type}
		switch v.Type {
		case "string", "expand_string":
			kept.String = v.String
		case "multi_string":
			if slices.Contains(v.Strings, "") {
				return fmt.Errorf("%w: an empty string in a multi_string", fs.ErrInvalid)
			}
			kept.Strings = slices.Clone(v.Strings)
		case "dword":
			if v.Number > math.MaxUint32 {
				return fmt.Errorf("%w: %d is too large for a dword", fs.ErrInvalid, v.Number)
			}
			kept.Number = v.Number
		case "qword":
			kept.Number = v.Number
		case "binary":
			kept.Binary = slices.Clone(v.Binary)
		default:
			return fmt.Errorf("%w: registry type %q", fs.ErrInvalid, v.Type)
		}
		if s.Registry[k] == nil {
			s.Registry[k] = map[string]host.RegistryValue{}
		}
		s.Registry[k][h.fold(name)] = kept
		return nil
	}))
}

// DeleteRegistryValue removes a registry value.
func (h *Host) DeleteRegistryValue(ctx context.Context, key, name string) error {
	return failed("delete registry value", key+`\`+name, h.change(ctx, func(s *state) error {
		k, err := h.registryKey(key)
		if err != nil {
			return err
		}
		delete(s.Registry[k], h.fold(name))
		return nil
	}))
}

// DeleteRegistryKey removes an empty registry key.
func (h *Host) DeleteRegistryKey(ctx context.Context, key string) error {
	return failed("delete registry key", key, h.change(ctx, func(s *state) error {
		k, err := h.registryKey(key)
		if err != nil {
			return err
		}
		for have := range s.Registry {
			if have == k && len(s.Registry[k]) > 0 || strings.HasPrefix(have, k+`\`) {
				return host.ErrBusy
			}
		}
		delete(s.Registry, k)
		return nil
	}))
}

// MachineEnv reads a variable of the machine's environment.
func (h *Host) MachineEnv(ctx context.Context, name string) (string, error) {
	var out string
	err := h.view(ctx, "read environment", name, func(s *state) error {
		v, ok := s.Env[h.fold(name)]
		if !ok {
			return fs.ErrNotExist
		}
		out = v
		return nil
	})
	return out, err
}

// SetMachineEnv sets a variable of the machine's environment.
func (h *Host) SetMachineEnv(ctx context.Context, name, value string) error {
	return failed("set environment", name, h.change(ctx, func(s *state) error {
		if name == "" || strings.ContainsAny(name, "=\x00\n") || strings.ContainsAny(value, "\x00\n") {
			return fmt.Errorf("%w: not a variable that a machine can hold", fs.ErrInvalid)
		}
		s.Env[h.fold(name)] = value
		return nil
	}))
}

// UnsetMachineEnv removes a variable of the machine's environment.
func (h *Host) UnsetMachineEnv(ctx context.Context, name string) error {
	return failed("unset environment", name, h.change(ctx, func(s *state) error {
		delete(s.Env, h.fold(name))
		return nil
	}))
}

// FirewallRule reads a firewall rule.
func (h *Host) FirewallRule(ctx context.Context, name string) (host.FirewallRule, error) {
	var out host.FirewallRule
	err := h.view(ctx, "read firewall rule", name, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		r, ok := s.Firewall[h.fold(name)]
		if !ok {
			return fs.ErrNotExist
		}
		out = r
		return nil
	})
	return out, err
}

// PutFirewallRule adds or replaces a firewall rule.
func (h *Host) PutFirewallRule(ctx context.Context, r host.FirewallRule) error {
	return failed("put firewall rule", r.Name, h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		if err := checkRule(r); err != nil {
			return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
		}
		r.Remote = host.Addresses(r.Remote)
		s.Firewall[h.fold(r.Name)] = r
		return nil
	}))
}

func checkRule(r host.FirewallRule) error {
	switch {
	case r.Name == "" || strings.Contains(r.Name, "|"):
		return fmt.Errorf("rule name %q", r.Name)
	case r.Direction != "in" && r.Direction != "out":
		return fmt.Errorf("direction %q", r.Direction)
	case r.Action != "allow" && r.Action != "block":
		return fmt.Errorf("action %q", r.Action)
	case r.Protocol != "tcp" && r.Protocol != "udp":
		return fmt.Errorf("protocol %q", r.Protocol)
	case !host.ValidAddresses(r.Remote):
		return fmt.Errorf("remote addresses %q", r.Remote)
	case r.Ports == "":
		return nil
	}
	for _, part := range strings.Split(r.Ports, ",") {
		last := uint64(0)
		for _, n := range strings.SplitN(part, "-", 2) {
			port, err := strconv.ParseUint(strings.TrimSpace(n), 10, 16)
			if err != nil || port < last {
				return fmt.Errorf("ports %q", r.Ports)
			}
			last = port
		}
	}
	return nil
}

// DeleteFirewallRule removes a firewall rule.
func (h *Host) DeleteFirewallRule(ctx context.Context, name string) error {
	return failed("delete firewall rule", name, h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		delete(s.Firewall, h.fold(name))
		return nil
	}))
}

// Reboot stops everything at once and then starts the automatic services. Only the HNS networks of
// CreateHNSNetwork survive it; flannel's do not survive a reboot of Windows either.
func (h *Host) Reboot(ctx context.Context) error {
	return failed("reboot", h.cfg.Hostname, h.change(ctx, func(s *state) error {
		names := slices.Sorted(maps.Keys(s.Services))
		for _, name := range names {
			if svc := s.Services[name]; svc.State != host.ServiceStopped {
				if err := h.stop(ctx, svc); err != nil {
					return err
				}
			}
		}
		h.forgetNetworks(s)
		h.finishFeatures(s)
		h.finishName(s)
		finishServicing(s)
		s.Noted = nil
		clear(s.Sysctls) // nobody reads the boot files of a sandbox
		s.Modules, s.Links, s.Chains, s.Tables, s.Routes = nil, nil, nil, nil, nil
		s.Pods = nil
		s.BootTime = later(s.BootTime, time.Now().UTC().Truncate(time.Second))
		for _, name := range names {
			svc := s.Services[name]
			if svc.State == host.ServiceStopped && (svc.Start == host.StartAuto || svc.Start == host.StartDelayed) {
				if err := h.start(ctx, s, svc, nil); err != nil {
					svc.ExitCode = 1 // a machine boots even if a service does not start
				}
			}
		}
		return nil
	}))
}

// later returns a boot time that differs from the last one.
func later(last, now time.Time) time.Time {
	if now.After(last) {
		return now
	}
	return last.Add(time.Second)
}

// own reports whether an address is loopback or belongs to the machine.
func (h *Host) own(name string) bool {
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.IsLoopback() || ip.String() == h.cfg.IP)
}
