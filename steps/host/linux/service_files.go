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
