//go:build linux

package linux

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// stopGrace is the time between SIGTERM and SIGKILL, as TimeoutStopSec of
// systemd-system.conf(5) has it; less when the context ends sooner.
const stopGrace = 90 * time.Second

// killGrace is the time in which a killed process must be gone.
const killGrace = 10 * time.Second

// pollEvery is the pause between two looks at a process that is ending.
const pollEvery = 20 * time.Millisecond

// maxLog is the size, in bytes, from which a log is rotated at a start.
const maxLog = 16 << 20

// StartService starts a service and, before it, those that it depends on. A program
// that ends at once leaves the service stopped, which is not an error of the start.
func (h supervisor) StartService(ctx context.Context, name string) error {
	return failed("start service", name, h.locked(ctx, func() error {
		c, err := h.definition(name)
		if err != nil {
			return err
		}
		if _, up, err := h.process(name); err != nil {
			return err
		} else if up {
			return host.ErrServiceRunning
		}
		return h.start(ctx, c, nil)
	}))
}

func (h *Host) start(ctx context.Context, c host.ServiceConfig, above []string) error {
	if slices.Contains(above, c.Name) {
		return fmt.Errorf("%w: the dependencies of %s form a circle", errDependency, c.Name)
	}
	if c.Start == host.StartDisabled {
		return errDisabled
	}
	for _, name := range c.DependsOn {
		dep, err := h.definition(name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s is not registered", errDependency, name)
		}
		if err != nil {
			return err
		}
		_, up, err := h.process(name)
		if err == nil && !up {
			err = h.start(ctx, dep, append(above, c.Name))
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errDependency, name, err)
		}
	}
	return h.launch(ctx, c)
}

// launch makes the process: the leader of a session of its own, which outlives this
// process and its terminal.
func (h *Host) launch(ctx context.Context, c host.ServiceConfig) error {
	if err := checkProgram(c.Command[0]); err != nil {
		return err
	}
	r := run{Mark: rand.Text()}
	if err := h.writeJSON(ctx, h.serviceFile(c.Name, runExt), r); err != nil {
		return err
	}
	env, err := h.serviceEnv(c, r.Mark)
	if err != nil {
		return err
	}
	log, err := h.openLog(c.Name)
	if err != nil {
		return err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return joined(err, log.Close())
	}
	p, err := os.StartProcess(c.Command[0], c.Command, &os.ProcAttr{
		Dir: "/", Env: env, Files: []*os.File{null, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	closed := joined(null.Close(), log.Close())
	if err != nil {
		err = fmt.Errorf("run %s: %s", c.Command[0], startError(err))
		return joined(err, drop(h.serviceFile(c.Name, runExt)))
	}
	// The number is this process's to reap until its end is seen here, so it names
	// the child even when that has ended already.
	id, err := identify(p.Pid)
	if err != nil {
		return joined(err, p.Kill())
	}
	if err := p.Release(); err != nil {
		return err
	}
	h.childMu.Lock()
	h.children[id] = &child{}
	h.childMu.Unlock()
	r.Process = id
	// The process runs: this is noted even if ctx ends.
	return joined(h.writeJSON(context.WithoutCancel(ctx), h.serviceFile(c.Name, runExt), r), closed)
}

// checkProgram refuses what cannot be run. The absence of the program must not look like the absence of the
// service.
func checkProgram(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(absent(err), fs.ErrNotExist):
		return fmt.Errorf("the program %s does not exist", path)
	case err != nil:
		return err
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%w: %s is not a program", fs.ErrPermission, path)
	}
	return nil
}

// startError is why a program could not be run, without the text that repeats it.
// ENOENT then means a missing interpreter.
func startError(err error) string {
	if code, ok := errors.AsType[syscall.Errno](err); ok {
		return code.Error()
	}
	return err.Error()
}

// serviceEnv is the environment of a service: a path to find programs, the machine's
// own variables and those of the service; a later one counts.
func (h *Host) serviceEnv(c host.ServiceConfig, mark string) ([]string, error) {
	lines, err := h.envLines()
	if err != nil {
		return nil, err
	}
	all := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, line := range lines {
		if name, value, ok := assignment(line); ok && name != "" {
			all = append(all, name+"="+value)
		}
	}
	all = append(append(all, c.Environment...), runVariable+"="+mark)
	var env []string
	at := map[string]int{}
	for _, e := range all {
		name, _, _ := strings.Cut(e, "=")
		if i, ok := at[name]; ok {
			env[i] = e
			continue
		}
		at[name] = len(env)
		env = append(env, e)
	}
	return env, nil
}

// openLog opens what a service prints to; a large log is rotated first.
func (h *Host) openLog(name string) (*os.File, error) {
	path := h.serviceFile(name, logExt)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, h.serviceFile(name, oldLogExt)); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// StopService asks the processes of a service to end, waits until they are gone and
// kills those that stay.
func (h supervisor) StopService(ctx context.Context, name string) error {
	return failed("stop service", name, h.locked(ctx, func() error {
		if _, err := h.definition(name); err != nil {
			return err
		}
		id, up, err := h.process(name)
		if err != nil || !up {
			return err
		}
		running, err := h.dependents(name)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			return fmt.Errorf("%w: %s", host.ErrDependents, strings.Join(running, ", "))
		}
		if err := h.end(ctx, id); err != nil {
			return err
		}
		// A run that ended on request has no exit code.
		return drop(h.serviceFile(name, runExt))
	}))
}

// end ends the process group that id leads.
func (h *Host) end(ctx context.Context, id processID) error {
	grace := stopGrace
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(deadline)/2)
	}
	for _, s := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, killGrace}} {
		err := unix.Kill(-id.PID, s.signal)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("signal process group %d: %w", id.PID, err)
		}
		gone, err := h.waitGone(ctx, id, s.wait)
		if gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d was killed and has not ended: %w", id.PID, context.DeadlineExceeded)
}

var errStillUp = errors.New("processes of the group still run")

// waitGone waits at most bound until no process of the group runs.
func (h *Host) waitGone(ctx context.Context, id processID, bound time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errStillUp)
	defer cancel()
	err := wait.Until(ctx, pollEvery, func() (bool, error) {
		up, err := id.groupAlive()
		h.reap()
		return !up, err
	})
	if errors.Is(err, errStillUp) {
		return false, nil
	}
	return err == nil, err
}
