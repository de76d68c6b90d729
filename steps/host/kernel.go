package host

import (
	"context"
)

// KernelReader observes the kernel of a Linux machine: parameters, modules, interfaces and the packet filter.
type KernelReader interface {
	// Sysctl reads a kernel parameter by its dotted name ("net.ipv4.ip_forward"), as sysctl(8) shows it, with
	// runs of blanks collapsed. Machines without them return ErrUnsupported.
	Sysctl(ctx context.Context, name string) (string, error)
	// KernelModule says how the running kernel has a module; fs.ErrNotExist when it
	// neither is loaded nor known to be part of the kernel. Machines without modules
	// answer ErrUnsupported.
	KernelModule(ctx context.Context, name string) (KernelModule, error)
	// Interfaces returns the names of the network interfaces, up or not, sorted. Machines without iptables'
	// packet filter return ErrUnsupported here and in the calls on chains.
	Interfaces(ctx context.Context) ([]string, error)
	// FilterChains lists the chains of the packet filter that programs have created; fs.ErrNotExist if iptables
	// is not installed.
	FilterChains(ctx context.Context) ([]FilterChain, error)
	// FilterTables lists the tables of nftables, including those of iptables; fs.ErrNotExist if nft is not
	// installed, ErrUnsupported on Windows.
	FilterTables(ctx context.Context) ([]FilterTable, error)
}

// Kernel observes and changes the kernel of a Linux machine.
type Kernel interface {
	KernelReader

	// SetSysctl sets a kernel parameter until the next boot; fs.ErrNotExist if the kernel does not have it.
	SetSysctl(ctx context.Context, name, value string) error
	// LoadKernelModule loads a module and its dependencies into the running kernel; it is not an error if it is
	// loaded already.
	LoadKernelModule(ctx context.Context, name string) error
	// DeleteInterface removes an interface that programs have created, such as a bridge; absence is not an
	// error.
	DeleteInterface(ctx context.Context, name string) error
	// DeleteFilterChains removes chains with their rules, and the rules of other chains that jump to them;
	// absence is not an error.
	DeleteFilterChains(ctx context.Context, chains []FilterChain) error
	// DeleteFilterTables removes tables with all their contents; absence is not an error.
	DeleteFilterTables(ctx context.Context, tables []FilterTable) error
}

// FilterChain is a chain of the packet filter, as iptables names it.
type FilterChain struct {
	Family string // "ipv4" or "ipv6"
	Table  string // "nat"
	Name   string // "KUBE-SERVICES"
}

// String is "ipv4/nat/KUBE-SERVICES".
func (c FilterChain) String() string { return c.Family + "/" + c.Table + "/" + c.Name }

// FilterTable is a table of nftables.
type FilterTable struct {
	Family string // "ip", "ip6", "inet" and others of nft(8)
	Name   string // "kube-proxy"
}

// String is "ip/kube-proxy".
func (t FilterTable) String() string { return t.Family + "/" + t.Name }

// KernelModule is how a kernel has a module.
type KernelModule string

const (
	ModuleLoaded  KernelModule = "loaded"
	ModuleBuiltIn KernelModule = "built in" // built into the kernel
)
