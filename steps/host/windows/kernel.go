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
