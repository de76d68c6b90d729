//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"nodejoin/steps/host"
)

// Service describes a registered service.
func (h supervisor) Service(ctx context.Context, name string) (host.Service, error) {
	const op = "read service"
	if ctx.Err() != nil {
		return host.Service{}, failed(op, name, context.Cause(ctx))
	}
	c, err := h.definition(name)
	if err != nil {
		return host.Service{}, failed(op, name, err)
	}
	id, up, err := h.process(name)
	if err != nil {
		return host.Service{}, failed(op, name, err)
	}
	s := host.Service{ServiceConfig: c, State: host.ServiceStopped}
	if up {
		s.State, s.PID = host.ServiceRunning, id.PID
	} else {
		s.ExitCode = h.exitCode(id)
	}
	return s, nil
}

// Dependents names the running services that depend on name, those furthest away
// first.
func (h supervisor) Dependents(ctx context.Context, name string) ([]string, error) {
	const op = "read dependents of service"
	if ctx.Err() != nil {
		return nil, failed(op, name, context.Cause(ctx))
	}
	if _, err := h.definition(name); err != nil {
		return nil, failed(op, name, err)
	}
	names, err := h.dependents(name)
	return names, failed(op, name, err)
}

func (h *Host) dependents(name string) ([]string, error) {
	all, err := h.definitions()
	if err != nil {
		return nil, err
	}
	var order []string
	seen := map[string]bool{name: true}
	// A service that does not run may itself be between two that do.
	var visit func(name string) error
	visit = func(name string) error {
		for _, c := range all {
			if seen[c.Name] || !slices.Contains(c.DependsOn, name) {
				continue
			}
			seen[c.Name] = true
			if err := visit(c.Name); err != nil {
				return err
			}
			_, up, err := h.process(c.Name)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			if up {
				order = append(order, c.Name)
			}
		}
		return nil
	}
	return order, visit(name)
}

// CreateService registers a service, stopped.
func (h supervisor) CreateService(ctx context.Context, config host.ServiceConfig) error {
	return failed("create service", config.Name, h.locked(ctx, func() error {
		c, err := normal(config)
		if err != nil {
			return err
		}
		file := h.serviceFile(c.Name, definitionExt)
		if _, err := os.Lstat(file); err == nil {
			return fs.ErrExist
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := drop(h.serviceFile(c.Name, runExt)); err != nil { // of an unfinished deletion
			return err
		}
		return h.writeJSON(ctx, file, c)
	}))
}

// UpdateService changes a registered service; a running one goes on as it was
// started.
func (h supervisor) UpdateService(ctx context.Context, config host.ServiceConfig) error {
	return failed("update service", config.Name, h.locked(ctx, func() error {
		c, err := normal(config)
		if err != nil {
			return err
		}
		file := h.serviceFile(c.Name, definitionExt)
		if _, err := os.Lstat(file); err != nil {
			return err
		}
		return h.writeJSON(ctx, file, c)
	}))
}

// DeleteService unregisters a stopped service and removes its log.
func (h supervisor) DeleteService(ctx context.Context, name string) error {
	return failed("delete service", name, h.locked(ctx, func() error {
		_, err := h.definition(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, up, err := h.process(name); err != nil {
			return err
		} else if up {
			return host.ErrServiceRunning
		}
		all, err := h.definitions()
		if err != nil {
			return err
		}
		for _, other := range all {
			if slices.Contains(other.DependsOn, name) {
				return fmt.Errorf("%w: %s", host.ErrDependents, other.Name)
			}
		}
		for _, ext := range []string{runExt, logExt, oldLogExt, definitionExt} { // the definition last
			if err := drop(h.serviceFile(name, ext)); err != nil {
				return err
			}
		}
		return syncDir(h.servicesDir())
	}))
}

// supervisor is nodejoin's own manager: a service is a process that outlives the one
// that started it. Nothing restarts it when it crashes, nothing starts it at boot.
type supervisor struct{ *Host }
