// Command servicectl changes services as an administrator does by hand. Its arguments are triples: service, property,
// value. It does not use nodejoin's code.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// stopWait bounds the stop of a service.
const stopWait = 30 * time.Second

func main() {
	m, err := mgr.Connect()
	for args := os.Args[1:]; err == nil && len(args) >= 3; args = args[3:] {
		if err = change(m, args[0], args[1], args[2]); err != nil {
			err = fmt.Errorf("%s, %s: %w", args[0], args[1], err)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func change(m *mgr.Mgr, name, property, value string) error {
	s, err := m.OpenService(name)
	if err != nil {
		return err
	}
	defer s.Close()
	switch property {
	case "stop":
		return stop(s)
	case "delete":
		if err := stop(s); err != nil {
			return err
		}
		return s.Delete()
	case "no recovery":
		return s.ResetRecoveryActions()
	case "recovery":
		return s.SetRecoveryActions([]mgr.RecoveryAction{{Type: mgr.ServiceRestart, Delay: 77 * time.Second}}, 86400)
	case "failure flag":
		return s.SetRecoveryActionsOnNonCrashFailures(false)
	case "description":
		text, err := windows.UTF16PtrFromString(value)
		if err != nil {
			return err
		}
		d := windows.SERVICE_DESCRIPTION{Description: text}
		return windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DESCRIPTION, (*byte)(unsafe.Pointer(&d)))
	}
	return basic(s, property, value)
}

// basic changes a property of QueryServiceConfig.
func basic(s *mgr.Service, property, value string) error {
	text, err := windows.UTF16PtrFromString(value)
	if err != nil {
		return err
	}
	start, control := uint32(windows.SERVICE_NO_CHANGE), uint32(windows.SERVICE_NO_CHANGE)
	var command, account, display *uint16
	var needs []uint16
	switch property {
	case "start":
		start = map[string]uint32{"manual": mgr.StartManual, "disabled": mgr.StartDisabled}[value]
	case "error control":
		control = mgr.ErrorIgnore
	case "command":
		command = text
	case "account":
		account = text
	case "display name":
		display = text
	case "dependencies": // on value, or on none
		if needs, err = windows.UTF16FromString(value); err != nil {
			return err
		}
		needs = append(needs, 0)
	default:
		return fmt.Errorf("no such property")
	}
	var dependencies *uint16
	if len(needs) > 0 {
		dependencies = &needs[0]
	}
	return windows.ChangeServiceConfig(s.Handle, windows.SERVICE_NO_CHANGE, start, control, command, nil, nil,
		dependencies, account, nil, display)
}

// stop waits for the end of a service. One that is just ending accepts the request and does not answer it.
func stop(s *mgr.Service) error {
	status, err := s.Query()
	if err != nil || status.State == svc.Stopped {
		return err
	}
	_, refused := s.Control(svc.Stop)
	for end := time.Now().Add(stopWait); ; time.Sleep(50 * time.Millisecond) {
		status, err := s.Query()
		if err != nil || status.State == svc.Stopped {
			return err
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("it did not stop within %s", stopWait), refused)
		}
	}
}
