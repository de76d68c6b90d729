//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// FeatureCommand is the first argument of the agent that runs FeatureService.
const FeatureCommand = "feature"

const featureServiceName = host.FeatureService

// Codes of the service besides those of the API.
const (
	// The API was not called, or its answer has no code. Bit 29 is of no code of Microsoft (MS-ERREF, 2.1).
	notChanged = 0xa0000001
	busyWait   = "an earlier run still changes a feature (service " + featureServiceName + ")"
)

// refusesLogin reports whether err may come from the kind of login: Windows Update, which has the files, does not
// serve those who logged in over the network, as over WinRM and SSH
// (learn.microsoft.com/windows/win32/wua_sdk/using-wua-from-a-remote-computer,
// github.com/hashicorp/packer/issues/9345).
func refusesLogin(err error) bool {
	var e dismError
	return errors.As(err, &e) && (e.code == accessDenied || e.code == sourceMissing)
}

// changeAsSystem has a service change a feature and waits for its end, within ctx. The service removes itself, also
// when nobody waits for it any more, and finishes its change.
func changeAsSystem(ctx context.Context, command []string, name string, on bool) error {
	m, err := openManager(windows.SC_MANAGER_CONNECT | windows.SC_MANAGER_CREATE_SERVICE)
	if err != nil {
		return err
	}
	defer m.Disconnect()
	s, err := newFeatureService(ctx, m, command, name, on)
	if err != nil {
		return fmt.Errorf("create service %s: %w", featureServiceName, err)
	}
	defer s.Close()
	status, err := s.Query()
	if err == nil {
		err = start(ctx, func() error { return s.Start() })
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start service %s: %w", featureServiceName, err), s.Delete())
	}
	if err := awaitTaken(ctx, s, status); err != nil {
		return err
	}
	err = wait.Until(ctx, time.Second, func() (bool, error) {
		status, err = s.Query()
		return status.State == svc.Stopped, err
	})
	if err != nil {
		return fmt.Errorf("service %s changes the feature as SYSTEM: %w", featureServiceName, err)
	}
	switch code := windows.Errno(status.Win32ExitCode); code {
	case 0:
		return nil
	case windows.ERROR_SERVICE_SPECIFIC_ERROR:
		if status.ServiceSpecificExitCode == notChanged {
			return fmt.Errorf("service %s could not call the DISM API as SYSTEM", featureServiceName)
		}
		return fmt.Errorf("as SYSTEM: %w", result(changeCall(name, on), uintptr(status.ServiceSpecificExitCode)))
	default:
		return fmt.Errorf("service %s, which was to change the feature as SYSTEM, ended: %w", featureServiceName, code)
	}
}

// newFeatureService registers the service. One of an earlier run that still works is waited for, one that never
// started is removed.
func newFeatureService(ctx context.Context, m *mgr.Mgr, command []string, name string, on bool) (*mgr.Service, error) {
	args := append(append([]string{}, command[1:]...), changing(on), name)
	config := mgr.Config{StartType: mgr.StartManual, DisplayName: "nodejoin: " + changing(on) + " " + name,
		Description: "Installs or removes a feature of Windows, and goes. Managed by nodejoin."}
	var s *mgr.Service
	err := wait.Until(ctx, time.Second, func() (done bool, err error) {
		s, err = m.CreateService(featureServiceName, command[0], config, args...)
		switch {
		case errors.Is(err, windows.ERROR_SERVICE_EXISTS):
			return false, removeIfStopped(m)
		case errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE): // it works, or somebody looks at it
			return false, nil
		}
		return true, err
	})
	if err != nil && errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf(busyWait+": %w", err)
	}
	return s, err
}

// removeIfStopped removes a service that a killed run has left before it started it.
func removeIfStopped(m *mgr.Mgr) error {
	s, err := openService(m, featureServiceName, windows.SERVICE_QUERY_STATUS|windows.DELETE)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	status, err := s.Query()
	if err != nil || status.State != svc.Stopped {
		return err
	}
	if err := s.Delete(); !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
		return err
	}
	return nil
}

// FeatureService is the service that changes a feature; args are those that follow Options.FeatureService. It returns
// the exit code of the program.
func FeatureService(args []string) int {
	if len(args) != 2 || args[0] != changing(true) && args[0] != changing(false) {
		return 3
	}
	if err := svc.Run(featureServiceName, featureChange{name: args[1], on: args[0] == changing(true)}); err != nil {
		return 1
	}
	return 0
}

type featureChange struct {
	name string
	on   bool
}

// Execute implements svc.Handler. It cannot be stopped: Windows does not promise anything about a canceled change.
func (c featureChange) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool,
	uint32) {
	const remains = 20000 // milliseconds that this may take
	status <- svc.Status{State: svc.StartPending, WaitHint: remains}
	// Once it is marked so, Windows removes the service when it ends, whatever became of who started it.
	err := withService(context.Background(), "delete service", featureServiceName, windows.DELETE,
		func(_ *mgr.Mgr, s *mgr.Service) error { return s.Delete() })
	if err != nil && !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
		return true, notChanged
	}
	now := svc.Status{State: svc.Running}
	status <- now
	done := make(chan error, 1)
	go func() { done <- new(Host).changeHere(context.Background(), c.name, c.on) }()
	for {
		select {
		case err := <-done:
			return exitOf(err)
		case r := <-requests:
			if r.Cmd == svc.Interrogate {
				status <- now
			}
		}
	}
}

// exitOf is the exit code of the service: the HRESULT of the call that failed.
func exitOf(err error) (specific bool, code uint32) {
	var e dismError
	switch {
	case err == nil:
		return false, 0
	case errors.As(err, &e):
		return true, e.code
	}
	return true, notChanged
}
