//go:build windows

package windows

import (
	"context"

	"nodejoin/steps/host"
)

// noKernel answers for what only Linux has.
func noKernel(ctx context.Context, op, subject string) error {
	if ctx.Err() != nil {
		return failed(op, subject, context.Cause(ctx))
	}
	return failed(op, subject, host.ErrUnsupported)
}

// Sysctl is host.ErrUnsupported.
func (h *Host) Sysctl(ctx context.Context, name string) (string, error) {
	return "", noKernel(ctx, "read sysctl", name)
}

// SetSysctl is host.ErrUnsupported.
func (h *Host) SetSysctl(ctx context.Context, name, _ string) error {
	return noKernel(ctx, "set sysctl", name)
}

// KernelModule is host.ErrUnsupported.
func (h *Host) KernelModule(ctx context.Context, name string) (host.KernelModule, error) {
	return "", noKernel(ctx, "look for kernel module", name)
}

// LoadKernelModule is host.ErrUnsupported.
func (h *Host) LoadKernelModule(ctx context.Context, name string) error {
	return noKernel(ctx, "load kernel module", name)
}

// Interfaces is host.ErrUnsupported.
func (h *Host) Interfaces(ctx context.Context) ([]string, error) {
	return nil, noKernel(ctx, "list", "network interfaces")
}

// DeleteInterface is host.ErrUnsupported.
func (h *Host) DeleteInterface(ctx context.Context, name string) error {
	return noKernel(ctx, "delete interface", name)
}

// FilterChains is host.ErrUnsupported.
func (h *Host) FilterChains(ctx context.Context) ([]host.FilterChain, error) {
	return nil, noKernel(ctx, "list", "filter chains")
}

// DeleteFilterChains is host.ErrUnsupported.
func (h *Host) DeleteFilterChains(ctx context.Context, _ []host.FilterChain) error {
	return noKernel(ctx, "delete", "filter chains")
}

// FilterTables is host.ErrUnsupported.
func (h *Host) FilterTables(ctx context.Context) ([]host.FilterTable, error) {
	return nil, noKernel(ctx, "list", "filter tables")
}

// DeleteFilterTables is host.ErrUnsupported.
func (h *Host) DeleteFilterTables(ctx context.Context, _ []host.FilterTable) error {
	return noKernel(ctx, "delete", "filter tables")
}

// DeleteRoutes is host.ErrUnsupported.
func (h *Host) DeleteRoutes(ctx context.Context, _ []host.Route) error {
	return noKernel(ctx, "delete", "routes")
}
