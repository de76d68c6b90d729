package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

var (
	errDisabled   = errors.New("the service is disabled")
	errDependency = errors.New("a service that it depends on could not be started")
)

// Service returns a registered service.
func (h *Host) Service(ctx context.Context, name string) (host.Service, error) {
	var out host.Service
	err := h.view(ctx, "read service", name, func(s *state) error {
		svc, ok := s.Services[h.fold(name)]
		if !ok {
			return fs.ErrNotExist
		}
		out = copied(svc.Service)
		return nil
	})
	return out, err
}

// Dependents returns the running services that depend on name, the last one to start first.
func (h *Host) Dependents(ctx context.Context, name string) ([]string, error) {
	var out []string
	err := h.view(ctx, "read dependents of service", name, func(s *state) error {
		if s.Services[h.fold(name)] == nil {
			return fs.ErrNotExist
		}
		out = h.dependents(s, name)
		return nil
	})
	return out, err
}

func (h *Host) dependents(s *state, name string) []string {
	var out []string
	seen := map[string]bool{h.fold(name): true}
	var visit func(name string)
	visit = func(name string) {
		for _, key := range slices.Sorted(maps.Keys(s.Services)) {
			svc := s.Services[key]
			if !seen[key] && svc.State == host.ServiceRunning && h.dependsOn(svc, name) {
				seen[key] = true
				visit(svc.Name)
				out = append(out, svc.Name)
			}
		}
	}
	visit(name)
	return out
}

func (h *Host) dependsOn(svc *service, name string) bool {
	return slices.ContainsFunc(svc.DependsOn, func(d string) bool { return h.fold(d) == h.fold(name) })
}

// CreateService registers a service.
func (h *Host) CreateService(ctx context.Context, c host.ServiceConfig) error {
	return failed("create service", c.Name, h.change(ctx, func(s *state) error {
		want, err := h.normal(c)
		if err != nil {
			return err
		}
		if s.Services[h.fold(want.Name)] != nil {
			return fs.ErrExist
		}
		s.Services[h.fold(want.Name)] = &service{Service: host.Service{ServiceConfig: want, State: host.ServiceStopped}}
		return nil
	}))
}

// UpdateService changes a registered service. If it runs, it keeps running as it was started.
func (h *Host) UpdateService(ctx context.Context, c host.ServiceConfig) error {
	return failed("update service", c.Name, h.change(ctx, func(s *state) error {
		want, err := h.normal(c)
		if err != nil {
			return err
		}
		svc := s.Services[h.fold(want.Name)]
		if svc == nil {
			return fs.ErrNotExist
		}
		want.Name = svc.Name
		svc.ServiceConfig = want
		return nil
	}))
}

// normal returns the configuration as a service manager stores it.
func (h *Host) normal(c host.ServiceConfig) (host.ServiceConfig, error) {
	switch {
	case c.Name == "" || len(c.Name) > 256 || strings.ContainsAny(c.Name, `/\`):
		return c, fmt.Errorf("%w: service name %q", fs.ErrInvalid, c.Name)
	case len(c.Command) == 0 || !h.absolute(c.Command[0]):
		return c, fmt.Errorf("%w: the command does not begin with the absolute path of a program", fs.ErrInvalid)
	case !slices.Contains([]host.StartType{host.StartAuto, host.StartDelayed, host.StartManual, host.StartDisabled},
		c.Start):
		return c, fmt.Errorf("%w: start type %q", fs.ErrInvalid, c.Start)
	}
	for _, a := range c.Recovery {
		if a.Action != "restart" && a.Action != "none" {
			return c, fmt.Errorf("%w: recovery action %q", fs.ErrInvalid, a.Action)
		}
	}
	for _, d := range c.DependsOn {
		if h.fold(d) == h.fold(c.Name) {
			return c, fmt.Errorf("%w: the service depends on itself", fs.ErrInvalid)
		}
	}
	for _, e := range c.Environment {
		if i := strings.Index(e, "="); i < 1 {
			return c, fmt.Errorf("%w: environment %q", fs.ErrInvalid, e)
		}
	}
	c.DisplayName = or(c.DisplayName, c.Name)
	c.Command = slices.Clone(c.Command)
	c.DependsOn = sorted(c.DependsOn)
	c.Environment = sorted(c.Environment)
	c.Recovery = slices.Clone(c.Recovery)
	return c, nil
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// StartService starts the services that a service depends on, and then the service. If its program exits at
// once, the service is stopped with that exit code; this is not an error of StartService.
func (h *Host) StartService(ctx context.Context, name string) error {
	var startErr error
	err := h.change(ctx, func(s *state) error {
		svc := s.Services[h.fold(name)]
		if svc == nil {
			return fs.ErrNotExist
		}
		if svc.State == host.ServiceRunning {
			return host.ErrServiceRunning
		}
		// What was started stays started, even if a later one could not be.
		startErr = h.start(ctx, s, svc, nil)
		return nil
	})
	return failed("start service", name, errors.Join(startErr, err))
}

func (h *Host) start(ctx context.Context, s *state, svc *service, above []string) error {
	if slices.Contains(above, h.fold(svc.Name)) {
		return fmt.Errorf("%w: the dependencies of %s form a circle", errDependency, svc.Name)
	}
	if svc.Start == host.StartDisabled {
		return errDisabled
	}
	for _, name := range svc.DependsOn {
		dep := s.Services[h.fold(name)]
		if dep == nil {
			return fmt.Errorf("%w: %s is not registered", errDependency, name)
		}
		if dep.State != host.ServiceRunning {
			if err := h.start(ctx, s, dep, append(above, h.fold(svc.Name))); err != nil {
				return fmt.Errorf("%w: %s: %w", errDependency, name, err)
			}
		}
		if dep.State != host.ServiceRunning {
			return fmt.Errorf("%w: %s ended with exit code %d", errDependency, name, dep.ExitCode)
		}
	}
	if !h.isFile(svc.Command[0]) {
		// Not fs.ErrNotExist, which would mean that the service does not exist.
		return fmt.Errorf("the program %s does not exist", svc.Command[0])
	}
	runs := h.wrapped(s, svc)
	code, err := h.launch(ctx, s, runs)
	if err != nil {
		return err
	}
	svc.ExitCode = code
	if code != 0 {
		return nil
	}
	s.LastPID += 4
	svc.State, svc.PID, svc.Ran = host.ServiceRunning, 1000+s.LastPID, slices.Clone(runs.Command)
	svc.InUse = nil
	for _, p := range svc.Ran {
		if h.isProgram(s, p, p == svc.Ran[0]) {
			key, err := h.key(p)
			if err != nil {
				return err
			}
			svc.InUse = append(svc.InUse, key)
		}
	}
	return nil
}

// isProgram reports whether an element of a running command is a program file that runs too: the first one may
// be a wrapper of another.
func (h *Host) isProgram(s *state, p string, first bool) bool {
	if !h.absolute(p) || !h.isFile(p) {
		return false
	}
	if h.windows() {
		return strings.HasSuffix(strings.ToLower(p), ".exe")
	}
	key, err := h.key(p)
	return first || err == nil && s.Access[key] == host.AccessProgram
}

// StopService stops a service.
func (h *Host) StopService(ctx context.Context, name string) error {
	return failed("stop service", name, h.change(ctx, func(s *state) error {
		svc := s.Services[h.fold(name)]
		if svc == nil {
			return fs.ErrNotExist
		}
		if svc.State == host.ServiceStopped {
			return nil
		}
		if d := h.dependents(s, name); len(d) > 0 {
			return fmt.Errorf("%w: %s", host.ErrDependents, strings.Join(d, ", "))
		}
		return h.stop(ctx, svc)
	}))
}

func (h *Host) stop(ctx context.Context, svc *service) error {
	if err := h.withdraw(ctx, svc); err != nil {
		return err
	}
	svc.State, svc.PID, svc.ExitCode, svc.Ran, svc.InUse = host.ServiceStopped, 0, 0, nil, nil
	return nil
}

// DeleteService unregisters a service.
func (h *Host) DeleteService(ctx context.Context, name string) error {
	return failed("delete service", name, h.change(ctx, func(s *state) error {
		svc := s.Services[h.fold(name)]
		if svc == nil {
			return nil
		}
		if svc.State != host.ServiceStopped {
			return host.ErrServiceRunning
		}
		for _, key := range slices.Sorted(maps.Keys(s.Services)) {
			if other := s.Services[key]; h.dependsOn(other, name) {
				return fmt.Errorf("%w: %s", host.ErrDependents, other.Name)
			}
		}
		delete(s.Services, h.fold(name))
		if h.windows() { // its key and everything below it goes too
			key := serviceKey(name)
			maps.DeleteFunc(s.Registry, func(k string, _ map[string]host.RegistryValue) bool {
				return k == key || strings.HasPrefix(k, key+`\`)
			})
		}
		return nil
	}))
}
