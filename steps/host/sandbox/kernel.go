package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// The kernel of a Linux sandbox: its parameters after a boot, each with the module that adds it ("" = none),
// the modules that can be loaded, and those that are built in.
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
		s.Sysctls[name] = value
		if value == kernelParameters[name].value {
			delete(s.Sysctls, name)
		}
		return nil
	}))
}

// KernelModule reports whether a module is loaded or built in.
func (h *Host) KernelModule(ctx context.Context, name string) (host.KernelModule, error) {
	var out host.KernelModule
	err := h.view(ctx, "look for kernel module", name, func(s *state) error {
		switch module := strings.ReplaceAll(name, "-", "_"); {
		case h.windows():
			return host.ErrUnsupported
		case module == "" || strings.ContainsAny(module, "/ \n"):
			return fmt.Errorf("%w: module name %q", fs.ErrInvalid, name)
		case slices.Contains(builtInModules, module):
			out = host.ModuleBuiltIn
		case slices.Contains(s.Modules, module):
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
		module := strings.ReplaceAll(name, "-", "_")
		switch {
		case h.windows():
			return host.ErrUnsupported
		case slices.Contains(builtInModules, module) || slices.Contains(s.Modules, module):
			return nil
		case !slices.Contains(loadableModules, module):
			return fmt.Errorf("%w: there is no module %q for this kernel", fs.ErrInvalid, name)
		}
		s.Modules = append(s.Modules, module)
		return nil
	}))
}

// Interfaces returns the names of the network interfaces: those of a fresh machine and those that programs have
// created.
func (h *Host) Interfaces(ctx context.Context) ([]string, error) {
	var out []string
	err := h.view(ctx, "list", "network interfaces", func(s *state) error {
		if h.windows() {
			return host.ErrUnsupported
		}
		out = append([]string{"eth0", "lo"}, s.Links...)
		slices.Sort(out)
		return nil
	})
	return out, err
}

// DeleteInterface removes an interface.
func (h *Host) DeleteInterface(ctx context.Context, name string) error {
	return failed("delete interface", name, h.change(ctx, func(s *state) error {
		if h.windows() {
			return host.ErrUnsupported
		}
		s.Links = slices.DeleteFunc(s.Links, func(l string) bool { return l == name })
		return nil
	}))
}

// FilterChains lists the chains that programs have created.
func (h *Host) FilterChains(ctx context.Context) ([]host.FilterChain, error) {
	var out []host.FilterChain
	err := h.view(ctx, "list", "filter chains", func(s *state) error {
		if h.windows() {
			return host.ErrUnsupported
		}
		out = slices.Clone(s.Chains)
		return nil
	})
	return out, err
}

// PutFilterChains creates chains, as a program that is not simulated would.
func (h *Host) PutFilterChains(ctx context.Context, chains ...host.FilterChain) error {
	return failed("put", "filter chains", h.change(ctx, func(s *state) error {
		s.Chains = append(s.Chains, chains...)
		return nil
	}))
}

// DeleteFilterChains removes chains.
func (h *Host) DeleteFilterChains(ctx context.Context, chains []host.FilterChain) error {
	return failed("delete", "filter chains", h.change(ctx, func(s *state) error {
		if h.windows() {
			return host.ErrUnsupported
		}
		s.Chains = slices.DeleteFunc(s.Chains, func(c host.FilterChain) bool { return slices.Contains(chains, c) })
		return nil
	}))
}

// FilterTables lists the nftables tables that programs have created.
func (h *Host) FilterTables(ctx context.Context) ([]host.FilterTable, error) {
	var out []host.FilterTable
	err := h.view(ctx, "list", "filter tables", func(s *state) error {
		if h.windows() {
			return host.ErrUnsupported
		}
		out = slices.Clone(s.Tables)
		return nil
	})
	return out, err
}

// PutFilterTables creates nftables tables, as a program that is not simulated would.
func (h *Host) PutFilterTables(ctx context.Context, tables ...host.FilterTable) error {
	return failed("put", "filter tables", h.change(ctx, func(s *state) error {
		s.Tables = append(s.Tables, tables...)
		return nil
	}))
}

// DeleteFilterTables removes tables.
func (h *Host) DeleteFilterTables(ctx context.Context, tables []host.FilterTable) error {
	return failed("delete", "filter tables", h.change(ctx, func(s *state) error {
		if h.windows() {
			return host.ErrUnsupported
		}
		s.Tables = slices.DeleteFunc(s.Tables, func(t host.FilterTable) bool { return slices.Contains(tables, t) })
		return nil
	}))
}

// PutRoutes creates routes, as a program that is not simulated would.
func (h *Host) PutRoutes(ctx context.Context, routes ...host.Route) error {
	return failed("put", "routes", h.change(ctx, func(s *state) error {
		s.Routes = append(s.Routes, routes...)
		return nil
	}))
}

// PutRoute adds a route over an adapter of the machine.
func (h *Host) PutRoute(ctx context.Context, r host.Route) error {
	return failed("add route", r.String(), h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		list, err := h.adapters(s)
		switch {
		case err != nil:
			return err
		case !slices.ContainsFunc(list, func(a host.Adapter) bool { return a.Name == r.Interface }):
			return fs.ErrNotExist
		case !slices.Contains(s.Routes, r):
			s.Routes = append(s.Routes, r)
		}
		return nil
	}))
}

// DeleteRoutes removes routes that programs have created.
func (h *Host) DeleteRoutes(ctx context.Context, routes []host.Route) error {
	return failed("delete", "routes", h.change(ctx, func(s *state) error {
		if h.windows() {
			return host.ErrUnsupported
		}
		s.Routes = slices.DeleteFunc(s.Routes, func(r host.Route) bool { return slices.Contains(routes, r) })
		return nil
	}))
}

// kernelTraces are what the programs of a Linux node create in its kernel.
var kernelTraces = map[string]struct {
	links  []string
	chains []host.FilterChain
}{
	containerd: {links: []string{"cni0"},
		chains: []host.FilterChain{{Family: "ipv4", Table: "nat", Name: "CNI-HOSTPORT-DNAT"}}},
	kubelet:  {chains: []host.FilterChain{{Family: "ipv4", Table: "mangle", Name: "KUBE-KUBELET-CANARY"}}},
	flanneld: {chains: []host.FilterChain{{Family: "ipv4", Table: "nat", Name: "FLANNEL-POSTRTG"}}},
	kubeProxy: {chains: []host.FilterChain{{Family: "ipv4", Table: "nat", Name: "KUBE-SERVICES"},
		{Family: "ipv6", Table: "nat", Name: "KUBE-SERVICES"}}},
}

func (s *state) addLink(name string) {
	if !slices.Contains(s.Links, name) {
		s.Links = append(s.Links, name)
	}
}

// makeInKernel creates them for a program. They last until the next boot.
func (s *state) makeInKernel(program string) {
	made := kernelTraces[program]
	for _, link := range made.links {
		s.addLink(link)
	}
	for _, c := range made.chains {
		if !slices.Contains(s.Chains, c) {
			s.Chains = append(s.Chains, c)
		}
	}
}
