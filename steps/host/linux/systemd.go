//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	bus "github.com/godbus/dbus/v5"

	"nodejoin/steps/host"
)

// systemdUnits is the folder of the administrator's unit files (systemd.unit(5)); those
// of packages lie elsewhere, and one of the same name would be hidden.
const systemdUnits = "/etc/systemd/system"

// envExt is the ending of the file that holds a service's environment, below the
// folder of services, under systemd.
const envExt = ".env"

// systemd has services as units. nodejoin writes them and talks to systemd over D-Bus, whose answers do not
// depend on the language.
type systemd struct{ *Host }

func unitPath(name string) string { return filepath.Join(systemdUnits, name+unitEnding) }

// checkUnit refuses what cannot be the name of a unit.
func checkUnit(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if !unitName.MatchString(name) {
		return fmt.Errorf("%w: service name %q: a unit's name has letters, digits and :-_.\\ only", fs.ErrInvalid, name)
	}
	return nil
}

// connected calls f with a connection to systemd: root has one without the message
// bus. Each call opens its own, since systemd drops all connections when it is updated.
func connected(ctx context.Context, f func(*dbus.Conn) error) error {
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil && os.Geteuid() != 0 {
		conn, err = dbus.NewSystemConnectionContext(ctx)
	}
	if err != nil {
		return fmt.Errorf("systemd does not answer: %w", notAbsence(err))
	}
	defer conn.Close()
	return f(conn)
}

// notAbsence keeps the text of an error that must not be read as "the service is not
// there".
func notAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(err.Error())
	}
	return err
}

// properties are those of a unit, by their names in D-Bus (org.freedesktop.systemd1(5)).
type properties map[string]any

func (p properties) text(name string) string { s, _ := p[name].(string); return s }

// unit asks for a unit; its LoadState is "not-found" when there is none.
func unit(ctx context.Context, c *dbus.Conn, name string) (properties, error) {
	p, err := c.GetAllPropertiesContext(ctx, name+unitEnding)
	if err == nil && p["LoadState"] == nil {
		err = fmt.Errorf("systemd says nothing of unit %s", name)
	}
	return p, err
}

// up reports whether anything of the unit runs, or is about to be started by systemd.
func (p properties) up() bool {
	return !slices.Contains([]string{"inactive", "failed", ""}, p.text("ActiveState"))
}

// state fills in how a unit runs.
func (p properties) state(s *host.Service) {
	switch p.text("ActiveState") {
	case "active", "reloading", "refreshing":
		s.State = host.ServiceRunning
	case "activating":
		s.State, s.Restarting = host.ServiceStarting, p.text("SubState") == "auto-restart"
	case "deactivating":
		s.State = host.ServiceStopping
	default:
		s.State = host.ServiceStopped
	}
	if pid, ok := p["MainPID"].(uint32); ok && s.State != host.ServiceStopped && !s.Restarting {
		s.PID = int(pid)
	}
	if s.State == host.ServiceStopped || s.Restarting {
		s.ExitCode = p.exitCode()
	}
}

// exitCode is that of the last run, 0 if it ended on request.
func (p properties) exitCode() int {
	code, _ := p["ExecMainCode"].(int32)
	status, _ := p["ExecMainStatus"].(int32)
	switch {
	case p.text("Result") == "success" && p.text("SubState") != "auto-restart":
		return 0
	case code == 2 || code == 3: // CLD_KILLED, CLD_DUMPED of waitid(2)
		return 128 + int(status)
	}
	return int(status)
}

// foreign is the configuration of a unit that nodejoin did not write, as far as it can be expressed.
func (p properties) foreign(name string) host.ServiceConfig {
	c := host.ServiceConfig{Name: name, DisplayName: name, Description: p.text("Description"), Start: host.StartManual}
	if commands, ok := p["ExecStart"].([][]any); ok && len(commands) > 0 && len(commands[0]) > 1 {
		c.Command, _ = commands[0][1].([]string)
	}
	switch state := p.text("UnitFileState"); {
	case strings.HasPrefix(state, "enabled"):
		c.Start = host.StartAuto
	case strings.HasPrefix(state, "masked"):
		c.Start = host.StartDisabled
	}
	return c
}

// written reads the unit file of a service. ok is false when there is none, or none
// of nodejoin's; altered says what was changed in it by hand.
func (h systemd) written(name string) (c host.ServiceConfig, altered string, ok bool, err error) {
	raw, err := os.ReadFile(unitPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return c, "", false, nil
	}
	if err != nil {
		return c, "", false, err
	}
	if c, ok = unitDefinition(string(raw), name); !ok {
		return c, "", false, nil
	}
	env, err := os.ReadFile(h.serviceFile(name, envExt))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, "", true, err
	}
	c.Environment = environmentOf(string(env))
	if want, err := h.text(c); err != nil || want != string(raw) {
		altered = unitPath(name) + " was changed by hand"
	}
	return c, altered, true, nil
}

func (h systemd) text(c host.ServiceConfig) (string, error) {
	env := ""
	if len(c.Environment) > 0 {
		env = h.serviceFile(c.Name, envExt)
	}
	return unitText(c, h.envFile, env)
}

// find returns a registered service, with what systemd says of it; fs.ErrNotExist when
// there is none.
func (h systemd) find(ctx context.Context, conn *dbus.Conn, name string) (s host.Service, p properties,
	ours bool, err error) {
	if err := checkUnit(name); err != nil {
		return s, nil, false, fmt.Errorf("%w (%w)", fs.ErrNotExist, err) // such a name was never registered
	}
	c, altered, ours, err := h.written(name)
	if err != nil {
		return s, nil, ours, notAbsence(err)
	}
	if p, err = unit(ctx, conn, name); err != nil {
		return s, p, ours, notAbsence(err)
	}
	p.state(&s)
	if ours {
		s.ServiceConfig, s.Altered = c, altered
		automatic := c.Start == host.StartAuto || c.Start == host.StartDelayed
		if enabled := strings.HasPrefix(p.text("UnitFileState"), "enabled"); automatic && !enabled {
			s.Start = host.StartManual
		} else if !automatic && enabled {
			s.Start = host.StartAuto
		}
		return s, p, true, nil
	}
	// systemd keeps the unit of a removed file in memory until it next reloads.
	gone := p.text("FragmentPath") == unitPath(name) && !exists(unitPath(name)) && !p.up()
	if p.text("LoadState") == "not-found" && !p.up() || gone {
		return s, p, false, fs.ErrNotExist
	}
	s.ServiceConfig = p.foreign(name)
	return s, p, false, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Service describes a unit, whoever has written it.
func (h systemd) Service(ctx context.Context, name string) (s host.Service, err error) {
	const op = "read service"
	if ctx.Err() != nil {
		return s, failed(op, name, context.Cause(ctx))
	}
	err = connected(ctx, func(conn *dbus.Conn) error {
		s, _, _, err = h.find(ctx, conn, name)
		return err
	})
	if err != nil {
		return host.Service{}, failed(op, name, err)
	}
	return s, nil
}

// Dependents names the running services that depend on name, those furthest away
// first.
func (h systemd) Dependents(ctx context.Context, name string) (names []string, err error) {
	const op = "read dependents of service"
	if ctx.Err() != nil {
		return nil, failed(op, name, context.Cause(ctx))
	}
	err = connected(ctx, func(conn *dbus.Conn) error {
		if _, _, _, err := h.find(ctx, conn, name); err != nil {
			return err
		}
		names, err = h.running(ctx, conn, name)
		return err
	})
	return names, failed(op, name, err)
}

// running are the units that run and depend on name, directly or through others:
// nodejoin's as written, others as far as systemd has loaded them, which it has if they run.
func (h systemd) running(ctx context.Context, conn *dbus.Conn, name string) ([]string, error) {
	all, err := h.definitions()
	if err != nil {
		return nil, err
	}
	var order []string
	seen := map[string]bool{name: true}
	var visit func(p properties, name string) error
	visit = func(p properties, name string) error {
		var next []string
		for _, c := range all {
			if slices.Contains(c.DependsOn, name) {
				next = append(next, c.Name)
			}
		}
		for _, by := range []string{"RequiredBy", "BoundBy"} {
			units, _ := p[by].([]string)
			for _, u := range slices.Sorted(slices.Values(units)) {
				if d, ok := strings.CutSuffix(u, unitEnding); ok {
					next = append(next, d)
				}
			}
		}
		for _, d := range next {
			if seen[d] {
				continue
			}
			seen[d] = true
			p, err := unit(ctx, conn, d)
			if err != nil {
				return fmt.Errorf("%s: %w", d, notAbsence(err))
			}
			if err := visit(p, d); err != nil {
				return err
			}
			if p.up() {
				order = append(order, d)
			}
		}
		return nil
	}
	p, err := unit(ctx, conn, name)
	if err != nil {
		return nil, err
	}
	return order, visit(p, name)
}

// definitions reads all units of nodejoin, sorted by name.
func (h systemd) definitions() ([]host.ServiceConfig, error) {
	entries, err := os.ReadDir(systemdUnits) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []host.ServiceConfig
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), unitEnding)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if c, _, ours, err := h.written(name); err != nil {
			return nil, err
		} else if ours {
			all = append(all, c)
		}
	}
	return all, nil
}

// unknownUnit reports whether systemd has no such unit loaded.
func unknownUnit(err error) bool {
	e, ok := errors.AsType[bus.Error](err)
	return ok && e.Name == "org.freedesktop.systemd1.NoSuchUnit"
}
