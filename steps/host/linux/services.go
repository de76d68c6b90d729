//go:build linux

package linux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// Below the data folder, services/NAME.json is the definition of a service,
// NAME.run names its last process and NAME.log holds what it printed.
const (
	definitionExt = ".json"
	runExt        = ".run"
	logExt        = ".log"
	oldLogExt     = ".log.old"
)

// maxName leaves room in a file name (255 bytes) for the longest ending.
const maxName = 200

var (
	errDisabled   = errors.New("the service is disabled")
	errDependency = errors.New("a service that it depends on could not be started")
)

func (h *Host) servicesDir() string { return filepath.Join(h.dataDir, "services") }

func (h *Host) serviceFile(name, ext string) string { return filepath.Join(h.servicesDir(), name+ext) }

// checkName refuses what cannot be the name of a file in the services folder.
func checkName(name string) error {
	if name == "" || len(name) > maxName || name[0] == '.' || strings.ContainsAny(name, "/\x00\n") {
		return fmt.Errorf("%w: service name %q", fs.ErrInvalid, name)
	}
	return nil
}

// normal is the configuration as the manager keeps it.
func normal(c host.ServiceConfig) (host.ServiceConfig, error) {
	if err := checkName(c.Name); err != nil {
		return c, err
	}
	switch {
	case len(c.Command) == 0 || !filepath.IsAbs(c.Command[0]):
		return c, fmt.Errorf("%w: the command does not begin with the absolute path of a program", fs.ErrInvalid)
	case strings.ContainsRune(strings.Join(c.Command, "")+strings.Join(c.Environment, ""), 0):
		return c, fmt.Errorf("%w: a NUL in command or environment", fs.ErrInvalid)
	case !slices.Contains([]host.StartType{host.StartAuto, host.StartDelayed, host.StartManual, host.StartDisabled},
		c.Start):
		return c, fmt.Errorf("%w: start type %q", fs.ErrInvalid, c.Start)
	}
	for _, d := range c.DependsOn {
		if err := checkName(d); err != nil {
			return c, err
		}
		if d == c.Name {
			return c, fmt.Errorf("%w: the service depends on itself", fs.ErrInvalid)
		}
	}
	for _, e := range c.Environment {
		if strings.Index(e, "=") < 1 {
			return c, fmt.Errorf("%w: environment %q", fs.ErrInvalid, e)
		}
	}
	for _, a := range c.Recovery {
		if a.Action != "restart" && a.Action != "none" {
			return c, fmt.Errorf("%w: recovery action %q", fs.ErrInvalid, a.Action)
		}
	}
	if c.DisplayName == "" {
		c.DisplayName = c.Name
	}
	c.DependsOn = slices.Sorted(slices.Values(c.DependsOn))
	c.Environment = slices.Sorted(slices.Values(c.Environment))
	return c, nil
}

// definition reads a registered service; fs.ErrNotExist when there is none.
func (h *Host) definition(name string) (host.ServiceConfig, error) {
	var c host.ServiceConfig
	if err := checkName(name); err != nil {
		return c, fmt.Errorf("%w (%w)", fs.ErrNotExist, err) // such a name was never registered
	}
	err := readJSON(h.serviceFile(name, definitionExt), &c)
	if err == nil && (c.Name != name || len(c.Command) == 0) {
		err = fmt.Errorf("%s is damaged", h.serviceFile(name, definitionExt))
	}
	return c, err
}

// definitions reads all registered services, sorted by name.
func (h *Host) definitions() ([]host.ServiceConfig, error) {
	entries, err := os.ReadDir(h.servicesDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []host.ServiceConfig
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), definitionExt)
		if !ok {
			continue
		}
		c, err := h.definition(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b host.ServiceConfig) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}

// writeJSON keeps v in the services folder, which only root may enter: a service's
// environment may hold secrets.
func (h *Host) writeJSON(ctx context.Context, path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := h.makeServicesDir(); err != nil {
		return err
	}
	return writeFile(ctx, path, bytes.NewReader(append(raw, '\n')), host.WriteOptions{Access: host.AccessPrivate})
}

func (h *Host) makeServicesDir() error {
	if err := makeDirs(h.dataDir); err != nil {
		return err
	}
	err := makeDir(h.servicesDir(), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return setMode(h.servicesDir(), 0o700, true)
	}
	return err
}

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
