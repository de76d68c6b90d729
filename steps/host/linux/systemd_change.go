//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
)

// change runs f as the only one that changes services, with a connection to systemd.
func (h systemd) change(ctx context.Context, op, name string, f func(*dbus.Conn) error) error {
	return failed(op, name, h.locked(ctx, func() error { return connected(ctx, f) }))
}

// CreateService writes a unit; it is not started.
func (h systemd) CreateService(ctx context.Context, config host.ServiceConfig) error {
	return h.change(ctx, "create service", config.Name, func(conn *dbus.Conn) error {
		c, err := h.normal(config)
		if err != nil {
			return err
		}
		if exists(unitPath(c.Name)) {
			return fs.ErrExist
		}
		if p, err := unit(ctx, conn, c.Name); err != nil {
			return err
		} else if p.text("LoadState") != "not-found" && p.text("FragmentPath") != unitPath(c.Name) {
			return fmt.Errorf("%w: %s", fs.ErrExist, p.text("FragmentPath")) // a package's, which ours would hide
		}
		return h.write(ctx, conn, c)
	})
}

func (h systemd) normal(c host.ServiceConfig) (host.ServiceConfig, error) {
	c, err := normal(c)
	if err == nil {
		err = checkUnit(c.Name)
	}
	for _, d := range c.DependsOn {
		if err == nil {
			err = checkUnit(d)
		}
	}
	return c, err
}

// UpdateService writes a unit of nodejoin again; a running one goes on as it was
// started.
func (h systemd) UpdateService(ctx context.Context, config host.ServiceConfig) error {
	return h.change(ctx, "update service", config.Name, func(conn *dbus.Conn) error {
		c, err := h.normal(config)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(unitPath(c.Name)); err != nil {
			return err
		}
		return h.write(ctx, conn, c)
	})
}

// write makes the files, makes systemd read them, and enables or disables the unit. After an interruption
// the service shows as one that does not start at boot.
func (h systemd) write(ctx context.Context, conn *dbus.Conn, c host.ServiceConfig) error {
	if err := h.makeServicesDir(); err != nil {
		return err
	}
	env := h.serviceFile(c.Name, envExt)
	if len(c.Environment) > 0 {
		text, err := environmentText(c.Environment)
		if err != nil {
			return err
		}
		if err := writeFile(ctx, env, strings.NewReader(text), host.WriteOptions{Access: host.AccessPrivate}); err != nil {
			return err
		}
	}
	text, err := h.text(c)
	if err != nil {
		return err
	}
	if err := writeFile(ctx, unitPath(c.Name), strings.NewReader(text), host.WriteOptions{}); err != nil {
		return err
	}
	if len(c.Environment) == 0 {
		if err := drop(env); err != nil {
			return err
		}
	}
	if err := conn.ReloadContext(ctx); err != nil {
		return err
	}
	names := []string{c.Name + unitEnding}
	if c.Start == host.StartAuto || c.Start == host.StartDelayed {
		_, _, err = conn.EnableUnitFilesContext(ctx, names, false, false)
	} else {
		_, err = conn.DisableUnitFilesContext(ctx, names, false)
	}
	if err != nil {
		return notAbsence(err)
	}
	return conn.ReloadContext(ctx) // what is wanted by a target is read again, too
}

// jobPoll is the pause between two looks at a unit that is being started.
const jobPoll = 100 * time.Millisecond

// StartService starts a unit; systemd starts before it what it requires.
func (h systemd) StartService(ctx context.Context, name string) error {
	return h.change(ctx, "start service", name, func(conn *dbus.Conn) error {
		s, p, ours, err := h.find(ctx, conn, name)
		switch {
		case err != nil:
			return err
		case s.State == host.ServiceRunning:
			return host.ErrServiceRunning
		case s.Start == host.StartDisabled:
			return errDisabled
		}
		if ours {
			if err := checkProgram(s.Command[0]); err != nil {
				return err
			}
		}
		if stale, _ := p["NeedDaemonReload"].(bool); stale {
			if err := conn.ReloadContext(ctx); err != nil {
				return err
			}
		}
		if err := conn.ResetFailedUnitContext(ctx, name+unitEnding); err != nil && !unknownUnit(err) {
			return err
		}
		done := make(chan string, 1)
		if _, err := conn.StartUnitContext(ctx, name+unitEnding, "replace", done); unknownUnit(err) {
			return fmt.Errorf("%w: %w", errDependency, err)
		} else if err != nil {
			return notAbsence(err)
		}
		return h.started(ctx, conn, name, done)
	})
}

// started waits until systemd has completed a start, also if the program ends at once. The job of a program
// that cannot be run lasts as long as systemd retries.
func (h systemd) started(ctx context.Context, conn *dbus.Conn, name string, done <-chan string) error {
	tick := time.NewTicker(jobPoll)
	defer tick.Stop()
	result := ""
	for result == "" {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case result = <-done:
		case <-tick.C:
			p, err := unit(ctx, conn, name)
			if err != nil {
				return err
			}
			if p.text("SubState") == "auto-restart" {
				result = "restarting"
			}
		}
	}
	switch result {
	case "done":
		return nil
	case "dependency":
		return errDependency
	}
	p, err := unit(ctx, conn, name)
	if err != nil {
		return err
	}
	why := p.text("Result")
	ended := slices.Contains([]string{"success", "exit-code", "signal", "core-dump"}, why)
	if status, _ := p["ExecMainStatus"].(int32); ended && status != unitExecFailed &&
		(result == "failed" || result == "restarting") {
		return nil
	} else if ended && status == unitExecFailed {
		return fmt.Errorf("systemd could not run its program")
	}
	return fmt.Errorf("systemd did not start it: job %s, result %s", result, why)
}

// StopService stops a unit and waits until its process is gone. One that systemd is
// about to start again is not started again.
func (h systemd) StopService(ctx context.Context, name string) error {
	return h.change(ctx, "stop service", name, func(conn *dbus.Conn) error {
		_, p, _, err := h.find(ctx, conn, name)
		if err != nil || !p.up() {
			return err
		}
		running, err := h.running(ctx, conn, name)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			return fmt.Errorf("%w: %s", host.ErrDependents, strings.Join(running, ", "))
		}
		done := make(chan string, 1)
		if _, err := conn.StopUnitContext(ctx, name+unitEnding, "replace", done); err != nil {
			return notAbsence(err)
		}
		if err := h.stopped(ctx, conn, name, done); err != nil {
			return err
		}
		// A run that ended on request has no exit code.
		if err := conn.ResetFailedUnitContext(ctx, name+unitEnding); err != nil && !unknownUnit(err) {
			return err
		}
		return nil
	})
}

// stopped waits for the end of a stop. systemd kills what remains after its own timeout, or at once if ctx
// ends before that.
func (h systemd) stopped(ctx context.Context, conn *dbus.Conn, name string, done <-chan string) error {
	var grace <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline)/2 < stopGrace {
		t := time.NewTimer(time.Until(deadline) / 2)
		defer t.Stop()
		grace = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-grace:
			if err := conn.KillUnitWithTarget(ctx, name+unitEnding, dbus.Main, int32(unix.SIGKILL)); err != nil &&
				!unknownUnit(err) {
				return err
			}
		case result := <-done:
			if result != "done" {
				return fmt.Errorf("systemd did not stop it: job %s", result)
			}
			return nil
		}
	}
}

// DeleteService removes a stopped unit of nodejoin and its files in nodejoin's folder; the journal keeps
// its output.
func (h systemd) DeleteService(ctx context.Context, name string) error {
	return h.unregister(ctx, name, func(p properties) error {
		if p.up() {
			return host.ErrServiceRunning
		}
		return nil
	})
}

// unregister removes a unit of nodejoin, unless refuse returns an error.
func (h systemd) unregister(ctx context.Context, name string, refuse func(properties) error) error {
	return h.change(ctx, "delete service", name, func(conn *dbus.Conn) error {
		_, p, ours, err := h.find(ctx, conn, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		if err := refuse(p); err != nil {
			return err
		}
		if !ours {
			return fmt.Errorf("%w: nodejoin has not written its unit %s", fs.ErrPermission, p.text("FragmentPath"))
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
		if _, err := conn.DisableUnitFilesContext(ctx, []string{name + unitEnding}, false); err != nil {
			return notAbsence(err)
		}
		for _, file := range []string{h.serviceFile(name, envExt), unitPath(name)} { // the unit last
			if err := drop(file); err != nil {
				return err
			}
		}
		if err := conn.ResetFailedUnitContext(ctx, name+unitEnding); err != nil && !unknownUnit(err) {
			return err
		}
		return conn.ReloadContext(ctx)
	})
}
