package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
	"nodejoin/steps/wait"
)

// ServiceKey is the key of the claim of a service.
func ServiceKey(name string) record.Key { return record.Service.Of(name) }

// stopService stops a service, its running dependents first; those are noted, so
// that its service step starts them again even if this run ends in between. An
// absent service is no error.
func stopService(ctx context.Context, h host.Host, e *steps.Env, name string) error {
	svc, err := h.Service(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		svc, err = started(ctx, h, svc)
	}
	if err != nil || svc.State == host.ServiceStopped {
		return err
	}
	dependents, err := h.Dependents(ctx, name)
	if err != nil {
		return err
	}
	if err := snapshotStops(ctx, h, e, append(slices.Clone(dependents), name)...); err != nil {
		return err
	}
	if len(dependents) > 0 {
		noted := e.Record.Stopped[name]
		for _, d := range dependents {
			noted = append(slices.DeleteFunc(slices.Clone(noted), func(n string) bool { return n == d }), d)
		}
		e.Record.Stopped[name] = noted
		if err := e.Record.Save(ctx, h, e.Facts); err != nil {
			return err
		}
	}
	for _, d := range dependents {
		if err := stopDependent(ctx, h, d); err != nil {
			return fmt.Errorf("%s depends on %s: %w", d, name, err)
		}
	}
	return h.StopService(ctx, name)
}

// stopDependent stops a service that depends on the one that is to stop. It may be starting, as an earlier step of
// the run has stopped and started it with its own service.
func stopDependent(ctx context.Context, h host.Host, name string) error {
	svc, err := h.Service(ctx, name)
	if err == nil {
		_, err = started(ctx, h, svc)
	}
	if err != nil {
		return err
	}
	return h.StopService(ctx, name)
}

// started waits until a service no longer starts: a service manager takes no stop until then.
func started(ctx context.Context, r host.ServicesReader, svc host.Service) (host.Service, error) {
	if svc.State != host.ServiceStarting || svc.Restarting {
		return svc, nil
	}
	return awaitState(ctx, r, svc.Name, host.ServiceRunning, host.ServiceStopped)
}

// startAgain starts what stopService stopped besides the service itself, in the
// reverse order. Services of nodejoin that do not start are left to their own steps.
func startAgain(ctx context.Context, h host.Host, e *steps.Env, name string) error {
	noted := e.Record.Stopped[name]
	if len(noted) == 0 {
		return nil
	}
	for _, d := range slices.Backward(noted) {
		svc, err := h.Service(ctx, d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !ended(svc) {
			continue
		}
		if err := h.StartService(ctx, d); err != nil && !errors.Is(err, host.ErrServiceRunning) &&
			!steps.Ours(svc, e.Record) {
			return fmt.Errorf("%s depends on %s and was stopped for it: %w", d, name, err)
		}
		if !e.StartedByOthers(svc) {
			if err := noteRestart(ctx, h, e, d); err != nil {
				return err
			}
		}
	}
	delete(e.Record.Stopped, name)
	return e.Record.Save(ctx, h, e.Facts)
}

// noteRestart notes the process of a service that nodejoin has started before, and just did again.
// The caller saves the record.
func noteRestart(ctx context.Context, r host.ServicesReader, e *steps.Env, name string) error {
	start, ok := e.Record.Starts[name]
	if !ok {
		return nil
	}
	svc, err := r.Service(ctx, name)
	if err != nil {
		return err
	}
	start.PID = svc.PID
	e.Record.Starts[name] = start
	return nil
}

// awaitState polls until the service is in one of states; one that the manager is
// about to start again has ended, and is not waited for.
func awaitState(ctx context.Context, r host.ServicesReader, name string, states ...host.ServiceState) (
	host.Service, error) {
	var svc host.Service
	err := wait.Until(ctx, lookMost, func() (done bool, err error) {
		svc, err = r.Service(ctx, name)
		return slices.Contains(states, svc.State) || svc.Restarting, err
	})
	return svc, err
}

// startService starts a stopped service and waits until it runs. A service that
// ends by itself is host.ErrServiceExited with what its log says.
func startService(ctx context.Context, h host.Host, name, log string) error {
	if err := h.StartService(ctx, name); err != nil && !errors.Is(err, host.ErrServiceRunning) &&
		!errors.Is(err, host.ErrServiceExited) {
		return err
	}
	svc, err := awaitState(ctx, h, name, host.ServiceRunning, host.ServiceStopped)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &steps.Error{Code: steps.CodeTimeout, Summary: "not done in time",
			Detail: fmt.Sprintf("service %s is not running yet, its last state is %q%s", name, svc.State,
				logTail(ctx, h, log)),
			Remedy: "read its log; raise the step's timeout if the machine is slow"}
	}
	if err != nil {
		return err
	}
	if ended(svc) {
		return exited(ctx, h, svc, log)
	}
	return nil
}

// ended reports whether the service's program does not run, though the service manager
// may be about to start it again.
func ended(svc host.Service) bool { return svc.State == host.ServiceStopped || svc.Restarting }

// exited is the error of a service that was found ended.
func exited(ctx context.Context, r host.Reader, svc host.Service, log string) error {
	return fmt.Errorf("service %s: %w with exit code %d%s", svc.Name, host.ErrServiceExited, svc.ExitCode,
		logTail(ctx, r, log))
}

const (
	tailLines = 20
	tailBytes = 4 << 10
)

// logTail is the end of a log for an error message; it works after ctx has ended.
func logTail(ctx context.Context, r host.FilesReader, log string) string {
	if log == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	last, _, err := host.ReadTail(ctx, r, log, tailBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "; it has written no log " + log
	}
	if err != nil {
		return fmt.Sprintf("; its log cannot be read: %v", err)
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(last), "?"), "\r\n\t ")
	if text == "" {
		return "; its log " + log + " is empty"
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Sprintf("; the end of %s:\n%s", log, strings.Join(lines, "\n"))
}

// lookMost bounds the pause between two looks at something of a machine that is waited for.
const lookMost = time.Second

// snapshotStops puts services that are about to be stopped into the open snapshot, with
// the note that they were.
func snapshotStops(ctx context.Context, h host.Host, e *steps.Env, names ...string) error {
	s := e.Record.Snapshot
	if !s.Open() {
		return nil
	}
	save := false
	for _, name := range names {
		key := ServiceKey(name)
		if _, err := e.Snapshot(ctx, h, record.New{Key: key}); err != nil {
			return err
		}
		if item := s.Items[key]; item.Existed && !item.Stopped {
			item.Stopped, save = true, true
			s.Items[key] = item
		}
	}
	if !save {
		return nil
	}
	return e.Record.Save(ctx, h, e.Facts)
}

// serviceState is the earlier state of a service in a snapshot.
type serviceState struct {
	Config      host.ServiceConfig `json:"config"`
	Running     bool               `json:"running"`
	Fingerprint string             `json:"fingerprint,omitempty"`
	Start       *record.Start      `json:"start,omitempty"` // nil: nodejoin had not started it
}

// readServiceState reads what a snapshot holds of a service; nil = it is not registered.
func readServiceState(ctx context.Context, r host.Reader, e *steps.Env, name string) (any, error) {
	svc, err := r.Service(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	running := svc.State == host.ServiceRunning || svc.State == host.ServiceStarting
	state := serviceState{Config: svc.ServiceConfig, Running: running, Fingerprint: e.Record.Fingerprints[name]}
	if start, ok := e.Record.Starts[name]; ok {
		state.Start = &start
	}
	return state, nil
}
