//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// pollEvery is the pause between two looks at a service that is changing state.
const pollEvery = 50 * time.Millisecond

// Service describes a registered service.
func (h *Host) Service(ctx context.Context, name string) (host.Service, error) {
	var service host.Service
	err := withService(ctx, "read service", name, queryRights, func(_ *mgr.Mgr, s *mgr.Service) error {
		config, altered, err := readConfig(s)
		if err != nil {
			return err
		}
		status, err := s.Query()
		if err != nil {
			return err
		}
		service = host.Service{ServiceConfig: config, State: stateOf(status.State), PID: int(status.ProcessId),
			ExitCode: exitCode(status), Altered: altered}
		return nil
	})
	return service, err
}

func stateOf(state svc.State) host.ServiceState {
	switch state {
	case svc.Stopped:
		return host.ServiceStopped
	case svc.StartPending, svc.ContinuePending:
		return host.ServiceStarting
	case svc.StopPending:
		return host.ServiceStopping
	default: // running, paused and the way there
		return host.ServiceRunning
	}
}

func exitCode(status svc.Status) int {
	switch windows.Errno(status.Win32ExitCode) {
	case windows.ERROR_SERVICE_NEVER_STARTED:
		return 0
	case windows.ERROR_SERVICE_SPECIFIC_ERROR:
		return int(status.ServiceSpecificExitCode)
	}
	return int(status.Win32ExitCode)
}

// Dependents names the running services that depend on name, in the order in
// which they must be stopped.
func (h *Host) Dependents(ctx context.Context, name string) ([]string, error) {
	var names []string
	err := withService(ctx, "list dependents of", name, queryRights, func(m *mgr.Mgr, s *mgr.Service) error {
		found, err := dependents(ctx, m, name)
		for _, d := range found {
			if d.state != svc.Stopped {
				names = append(names, d.name)
			}
		}
		return err
	})
	return names, err
}

type dependent struct {
	name  string
	state svc.State
}

// dependents finds the registered services that depend on name, directly or not,
// those furthest away first. It asks every service for its dependencies and not the
// manager for the dependents: the manager's answer is empty in Wine. It skips services that cannot be
// opened, whatever the error: they are not ours, and the manager still refuses to stop what they need.
func dependents(ctx context.Context, m *mgr.Mgr, name string) ([]dependent, error) {
	all, err := m.ListServices()
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	needs := map[string][]dependent{} // lower-case name -> direct dependents
	for _, n := range all {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, err := openService(m, n, windows.SERVICE_QUERY_CONFIG|windows.SERVICE_QUERY_STATUS)
		if err != nil {
			continue
		}
		d, on := dependency(s)
		s.Close()
		for _, other := range on {
			key := strings.ToLower(other)
			needs[key] = append(needs[key], d)
		}
	}
	var order []dependent
	seen := map[string]bool{strings.ToLower(name): true}
	var visit func(string)
	visit = func(n string) {
		for _, d := range needs[strings.ToLower(n)] {
			if key := strings.ToLower(d.name); !seen[key] {
				seen[key] = true
				visit(d.name)
				order = append(order, d)
			}
		}
	}
	visit(name)
	return order, nil
}

// dependency returns what a service depends on. Reading the configuration fails for some services of a
// healthy machine: if their display name is a resource that is missing in its language
// (ERROR_MUI_FILE_NOT_FOUND), or if a security product guards them. Then it reads the registry. A service
// that cannot be read there either counts as having no dependencies.
func dependency(s *mgr.Service) (dependent, []string) {
	on := []string{}
	if basic, err := queryConfig(s); err == nil {
		on = basic.dependsOn
	} else if k, err := openKey(servicesKey+s.Name, registry.QUERY_VALUE); err == nil {
		defer k.Close()
		if list, _, err := k.GetStringsValue("DependOnService"); err == nil {
			on = list
		}
	}
	status, err := s.Query()
	if err != nil {
		return dependent{}, nil
	}
	return dependent{s.Name, status.State}, on
}

// StartService asks for a start. The manager answers once the program has
// connected to it, which it bounds itself (30 s unless ServicesPipeTimeout says otherwise).
func (h *Host) StartService(ctx context.Context, name string) error {
	return withService(ctx, "start service", name, windows.SERVICE_START|windows.SERVICE_QUERY_STATUS,
		func(_ *mgr.Mgr, s *mgr.Service) error {
			before, err := s.Query()
			if err != nil {
				return err
			}
			if err := start(ctx, func() error { return s.Start() }); err != nil {
				return err
			}
			return awaitTaken(ctx, s, before)
		})
}

// startBound is how long the manager may fail to start a program for a reason that passes.
const startBound = 10 * time.Second

// passing are errors of a start that ran nothing and may succeed a moment later: a virus scanner has the program open,
// which was just written; the manager is locked; resources are short. Wine answers ERROR_INTERNAL_ERROR if the new
// process is gone before it begins (STATUS_INTERNAL_ERROR in NtCreateUserProcess).
var passing = []windows.Errno{windows.ERROR_SHARING_VIOLATION, windows.ERROR_SERVICE_DATABASE_LOCKED,
	windows.ERROR_NO_SYSTEM_RESOURCES, windows.ERROR_INTERNAL_ERROR}

// start asks the manager for a start, and again while that fails for a reason that passes.
func start(ctx context.Context, ask func() error) error {
	bounded, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	var refused error
	err := wait.Until(bounded, time.Second, func() (bool, error) {
		err := ask()
		var code windows.Errno
		if errors.As(err, &code) && slices.Contains(passing, code) {
			refused = err
			return false, nil
		}
		return true, err
	})
	if errors.Is(err, context.DeadlineExceeded) && refused != nil {
		return refused
	}
	return err
}

// takenWithin bounds the time between an accepted start and its mark in the service's
// state. Windows sets it before it answers; Wine may need a moment.
const takenWithin = time.Second

// awaitTaken returns once the service's state has changed after its start. A service that ended at once may
// show the same state again, so the bound is not an error.
func awaitTaken(ctx context.Context, s *mgr.Service, before svc.Status) error {
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	err := wait.Until(ctx, pollEvery, func() (bool, error) {
		now, err := s.Query()
		return now.State != svc.Stopped || now.Win32ExitCode != before.Win32ExitCode ||
			now.ServiceSpecificExitCode != before.ServiceSpecificExitCode, err
	})
	if errors.Is(err, context.Cause(ctx)) {
		return nil // the manager has taken the start
	}
	return err
}

// StopService stops and waits until the service reports stopped and its process
// is gone, bounded by ctx.
func (h *Host) StopService(ctx context.Context, name string) error {
	const op = "stop service"
	return withService(ctx, op, name, queryRights|windows.SERVICE_STOP, func(m *mgr.Mgr, s *mgr.Service) error {
		status, err := s.Query()
		if err != nil || status.State == svc.Stopped {
			return err
		}
		found, err := dependents(ctx, m, name)
		if err != nil {
			return err
		}
		var running []string
		for _, d := range found {
			if d.state != svc.Stopped {
				running = append(running, d.name)
			}
		}
		if len(running) > 0 {
			return fmt.Errorf("%w: %s", host.ErrDependents, strings.Join(running, ", "))
		}
		process, err := serviceProcess(s, status)
		if err != nil {
			return err
		}
		if process != 0 {
			defer windows.CloseHandle(process)
		}
		if err := stop(ctx, s, process); err != nil {
			return err
		}
		return endProcess(ctx, process)
	})
}

// endBound is how long the process of a service that has reported stopped has to end.
// The kubelet gives itself a second (kubernetes v1.36.3 pkg/windows/service/service.go),
// windows_exporter up to five (v0.27.2 exporter.go); csi-proxy's process does not end by
// itself (v1.1.3 cmd/csi-proxy/main.go).
var endBound = 10 * time.Second // a test shortens it

// deafBound is how long a service may make no progress after a stop request.
var deafBound = 30 * time.Second // a test shortens it

// endProcess waits for the end of the process of a stopped service; 0 means none.
// One that outlives endBound is killed: its service has reported that it stopped, and the process might
// keep its files open forever.
func endProcess(ctx context.Context, process windows.Handle) error {
	if process == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, endBound)
	defer cancel()
	err := waitProcess(bounded, process)
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return err
	}
	if err := windows.TerminateProcess(process, 1); err != nil {
		return fmt.Errorf("the service has stopped, its process has not ended in %s and cannot be ended: %w", endBound, err)
	}
	return waitProcess(ctx, process)
}

// serviceProcess opens the process of a running service before the service is stopped, so that stop can wait
// for the process to exit. It returns 0 if the service has no process of its own or the process has exited
// already.
func serviceProcess(s *mgr.Service, status svc.Status) (windows.Handle, error) {
	config, err := queryConfig(s)
	if err != nil {
		return 0, err
	}
	if status.ProcessId == 0 || config.serviceType&windows.SERVICE_WIN32_SHARE_PROCESS != 0 {
		return 0, nil
	}
	process, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_TERMINATE, false, status.ProcessId)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) { // a protected one
		process, err = windows.OpenProcess(windows.SYNCHRONIZE, false, status.ProcessId)
	}
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) { // no such process
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", status.ProcessId, err)
	}
	return process, nil
}

// stop sends the stop control until the service accepts it (a starting service does not; one whose process is
// just exiting accepts it and does not answer) and waits for the stopped state. If the service then makes no
// progress for deafBound, or longer if it asks for that (SERVICE_STATUS, dwCheckPoint and dwWaitHint), its
// process is killed. process 0 means none.
func stop(ctx context.Context, s *mgr.Service, process windows.Handle) error {
	asked := false
	var refused error
	var progress time.Time // when it accepted the control, or last made progress
	var checkpoint uint32
	err := wait.Until(ctx, pollEvery, func() (bool, error) {
		if !asked {
			_, err := s.Control(svc.Stop)
			switch {
			case err == nil, unanswered(err): // nobody is left to receive it again
				asked = true
			case errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE):
				return true, nil
			case !errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL):
				return false, err
			}
			refused = err
		}
		status, err := s.Query()
		if err != nil {
			return false, err
		}
		switch status.State {
		case svc.Stopped:
			return true, nil
		case svc.StopPending:
			asked = true
		}
		if asked && (progress.IsZero() || status.CheckPoint != checkpoint) {
			progress, checkpoint = time.Now(), status.CheckPoint
		}
		if process != 0 && !progress.IsZero() &&
			time.Since(progress) >= max(deafBound, time.Duration(status.WaitHint)*time.Millisecond) {
			if err := windows.TerminateProcess(process, 1); err != nil {
				return false, fmt.Errorf("the service does not react to the stop request, and its process cannot be killed: %w",
					err)
			}
			process = 0
		}
		return false, nil
	})
	if err != nil && refused != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w; it was asked to stop: %w", err, refused)
	}
	return err
}

// unanswered reports whether a control was lost with the process of its service: the
// service manager speaks to it over a pipe, and passes on the pipe's errors.
func unanswered(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) ||
		errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}

// waitProcess waits for the end of a process.
func waitProcess(ctx context.Context, process windows.Handle) error {
	for {
		event, err := windows.WaitForSingleObject(process, uint32(pollEvery.Milliseconds()))
		switch {
		case err != nil:
			return err
		case event == windows.WAIT_OBJECT_0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("the service has stopped, its process has not ended: %w", context.Cause(ctx))
		}
	}
}

// DeleteService unregisters a stopped service.
func (h *Host) DeleteService(ctx context.Context, name string) error {
	err := withService(ctx, "delete service", name, queryRights|windows.DELETE, func(m *mgr.Mgr, s *mgr.Service) error {
		status, err := s.Query()
		if err != nil {
			return err
		}
		if status.State != svc.Stopped {
			return host.ErrServiceRunning
		}
		found, err := dependents(ctx, m, name)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			var names []string
			for _, d := range found {
				names = append(names, d.name)
			}
			return fmt.Errorf("%w: %s", host.ErrDependents, strings.Join(names, ", "))
		}
		return s.Delete()
	})
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil
	}
	return err
}

// DeleteOwnService unregisters the service that this process runs as; Windows drops it
// when the process has ended.
func (h *Host) DeleteOwnService(ctx context.Context, name string) error {
	return withService(ctx, "delete service", name, windows.DELETE, func(_ *mgr.Mgr, s *mgr.Service) error {
		return s.Delete()
	})
}
