//go:build linux

package linux

import (
	"context"

	"nodejoin/steps/host"
)

// Service describes a registered service.
func (h *Host) Service(ctx context.Context, name string) (host.Service, error) {
	return h.services.Service(ctx, name)
}

// Dependents names the running services that depend on name, those furthest away
// first.
func (h *Host) Dependents(ctx context.Context, name string) ([]string, error) {
	return h.services.Dependents(ctx, name)
}

// CreateService registers a service, stopped.
func (h *Host) CreateService(ctx context.Context, c host.ServiceConfig) error {
	return h.services.CreateService(ctx, c)
}

// UpdateService changes a registered service; a running one goes on as it was
// started.
func (h *Host) UpdateService(ctx context.Context, c host.ServiceConfig) error {
	return h.services.UpdateService(ctx, c)
}

// StartService starts a service and, before it, those that it depends on. A program
// that ends at once leaves the service stopped, which is not an error of the start.
func (h *Host) StartService(ctx context.Context, name string) error {
	return h.services.StartService(ctx, name)
}

// StopService asks the processes of a service to end, waits until they are gone and
// kills those that stay.
func (h *Host) StopService(ctx context.Context, name string) error {
	return h.services.StopService(ctx, name)
}

// DeleteService unregisters a stopped service.
func (h *Host) DeleteService(ctx context.Context, name string) error {
	return h.services.DeleteService(ctx, name)
}

// DeleteOwnService removes the unit that this process runs as; systemd forgets it when
// the process has ended. Without systemd it is host.ErrUnsupported.
func (h *Host) DeleteOwnService(ctx context.Context, name string) error {
	s, ok := h.services.(systemd)
	if !ok {
		return failed("delete service", name, host.ErrUnsupported)
	}
	return s.unregister(ctx, name, func(properties) error { return nil })
}
