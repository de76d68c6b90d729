package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// The kernel of a Linux sandbox: parameters as they are after a boot, with the module
// that brings them ("" = none), modules that can be loaded, and those built in.
var (
	kernelParameters = map[string]struct{ value, module string }{
		"net.ipv4.ip_forward":                 {"0", ""},
		"net.ipv6.conf.all.forwarding":        {"0", ""},
		"vm.overcommit_memory":                {"0", ""},
		"vm.max_map_count":                    {"65530", ""},
		"fs.inotify.max_user_instances":       {"128", ""},
		"kernel.panic":                        {"0", ""},
		"net.bridge.bridge-nf-call-iptables":  {"1", "br_netfilter"},
		"net.bridge.bridge-nf-call-ip6tables": {"1", "br_netfilter"},
	}
	loadableModules = []string{"br_netfilter", "vxlan", "ip_vs"}
	builtInModules  = []string{"overlay"}
)

// Sysctl reads a kernel parameter.
func (h *Host) Sysctl(ctx context.Context, name string) (string, error) {
	var out string
	err := h.view(ctx, "read sysctl", name, func(s *state) error {
		v, err := h.parameter(s, name)
		out = v
		return err
	})
	return out, err
}

func (h *Host) parameter(s *state, name string) (string, error) {
	if h.windows() {
		return "", host.ErrUnsupported
	}
	p, ok := kernelParameters[name]
	if !ok || p.module != "" && !slices.Contains(s.Modules, p.module) {
		return "", fs.ErrNotExist
	}
	if v, ok := s.Sysctls[name]; ok {
		return v, nil
	}
	return p.value, nil
}

// SetSysctl sets a kernel parameter.
func (h *Host) SetSysctl(ctx context.Context, name, value string) error {
	return failed("set sysctl", name, h.change(ctx, func(s *state) error {
		if _, err := h.parameter(s, name); err != nil {
			return err
		}
		if value == "" || strings.ContainsAny(value, "\x00\n") {
			return fmt.Errorf("%w: value %q", fs.ErrInvalid, value)
		}
		value = strings.Join(strings.Fields(value), " ")
		if s.Sysctls[name] = value; value == kernelParameters[name].value {
			delete(s.Sysctls, name)
		}
		return nil
	}))
}

// KernelModule tells how the kernel has a module.
func (h *Host) KernelModule(ctx context.Context, name string) (host.KernelModule, error) {
	var out host.KernelModule
	err := h.view(ctx, "look for kernel module", name, func(s *state) error {
		switch name := strings.ReplaceAll(name, "-", "_"); {
		case h.windows():
			return host.ErrUnsupported
		case name == "" || strings.ContainsAny(name, "/ \n"):
			return fmt.Errorf("%w: module name %q", fs.ErrInvalid, name)
		case slices.Contains(builtInModules, name):
			out = host.ModuleBuiltIn
		case slices.Contains(s.Modules, name):
			out = host.ModuleLoaded
		default:
			return fs.ErrNotExist
		}
		return nil
	})
	return out, err
}

// LoadKernelModule loads a module.
func (h *Host) LoadKernelModule(ctx context.Context, name string) error {
	return failed("load kernel module", name, h.change(ctx, func(s *state) error {
		name := strings.ReplaceAll(name, "-", "_")
		switch {
		case h.windows():
			return host.ErrUnsupported
		case slices.Contains(builtInModules, name) || slices.Contains(s.Modules, name):
			return nil
		case !slices.Contains(loadableModules, name):
			return fmt.Errorf("%w: there is no module %q for this kernel", fs.ErrInvalid, name)
		}
		s.Modules = append(s.Modules, name)
		return nil
	}))
}
