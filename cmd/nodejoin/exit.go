package main

import (
	"context"
	"errors"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/transport"
)

// Exit codes. Scripts depend on them; they are part of the interface.
const (
	exitOK          = 0   // done, or no changes
	exitFailed      = 1   // a step failed, or a file of the controller
	exitPending     = 2   // changes are pending (plan, status with --detailed-exitcode)
	exitInvalid     = 3   // invalid plan or usage
	exitUnreachable = 4   // a host or the API server does not answer, or refuses the login
	exitNotVerified = 5   // applied, but the check after it still finds a difference
	exitReboot      = 6   // a reboot is pending that this run may not make, or this machine reboots now
	exitLocked      = 7   // another run holds a host or the cluster
	exitPanic       = 8   // a defect of nodejoin; it wrote a report
	exitOutput      = 9   // done, but the results could not be written
	exitInterrupted = 130 // Ctrl-C, or another signal that ends programs
)

// exitError ends the command with a code; everything has been printed before.
type exitError int

func (e exitError) Error() string { return "" }

// exit ends the command with a code; nil for exitOK.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return exitError(code)
}

// errorCode is the exit code for a failure of one host.
func errorCode(err error) int {
	var ce *transport.ConnectError
	var se *steps.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case transport.OfController(err):
		return exitFailed
	case errors.As(err, &ce), errors.Is(err, transport.ErrDropped):
		return exitUnreachable
	case errors.As(err, &se):
		switch se.Code {
		case steps.CodeInterrupted:
			return exitInterrupted
		case steps.CodeKubeconfig:
			return exitInvalid
		case steps.CodeNotConverged:
			return exitNotVerified
		case steps.CodeReboot:
			return exitReboot
		case steps.CodeLocked:
			return exitLocked
		case steps.CodeUnreachable, steps.CodeUnauthorized:
			return exitUnreachable
		}
	}
	return exitFailed
}

// worst is the exit code of several hosts. An interruption comes first, then a wrong kubeconfig, a failed
// step, one that did not verify, a host that another run holds, one that was not
// reached, a pending reboot, results that could not be written.
func worst(codes ...int) int {
	for _, c := range []int{exitInterrupted, exitInvalid, exitFailed, exitNotVerified, exitLocked, exitUnreachable,
		exitReboot, exitOutput} {
		for _, have := range codes {
			if have == c {
				return c
			}
		}
	}
	return exitOK
}

func reportCode(r *engine.Report) int {
	var codes []int
	if r.Cluster != nil {
		codes = append(codes, errorCode(r.Cluster))
	}
	for _, h := range r.Hosts {
		if r.Cluster == nil {
			codes = append(codes, errorCode(h.Err))
		}
		for _, s := range h.Steps {
			if s.Result.Err != nil {
				codes = append(codes, errorCode(s.Result.Err))
			}
		}
	}
	return worst(codes...)
}

func summaryCode(s *engine.Summary) int {
	var codes []int
	for _, h := range s.Hosts {
		codes = append(codes, errorCode(h.Err))
		if h.Held != "" {
			codes = append(codes, exitFailed)
		}
	}
	return worst(codes...)
}
