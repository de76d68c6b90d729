package preflight

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// sshService is that of OpenSSH on Windows.
const sshService = "sshd"

var sshChecks = []preflightCheck{
	{id: "ssh-start", severity: steps.SeverityError, os: "windows",
		why: "after the reboot of the plan nobody could reach the machine: OpenSSH comes with a service that is " +
			"not started with Windows",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			if !s.q.Reboots {
				return nil, nil
			}
			return sshStart(ctx, s)
		}},
	{id: "ssh-start-later", severity: steps.SeverityWarning, os: "windows",
		why: "after the next boot nobody can reach the machine",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			if s.q.Reboots {
				return nil, nil
			}
			return sshStart(ctx, s)
		}},
}

// sshStart looks whether OpenSSH, where it is what answers at the port, starts with Windows.
func sshStart(ctx context.Context, s *pass) ([]observed, error) {
	if s.q.SSHPort == 0 {
		return nil, nil
	}
	svc, err := s.r.Service(ctx, sshService)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // another server, which nothing is known of
	}
	if err != nil || svc.State != host.ServiceRunning || svc.Start == host.StartAuto || svc.Start == host.StartDelayed {
		return nil, err
	}
	list, err := s.r.Listeners(ctx)
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		return nil, err
	}
	at := slices.IndexFunc(list, func(l host.Listener) bool { return l.Protocol == "tcp" && int(l.Port) == s.q.SSHPort })
	if at >= 0 && list[at].PID != 0 && list[at].PID != svc.PID {
		return nil, nil
	}
	return found("let it start with Windows: Set-Service -Name sshd -StartupType Automatic",
		"the start type of service %s is %s", sshService, svc.Start)
}
