package preflight

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// sshService is that of OpenSSH on Windows.
const sshService = "sshd"

// openSSHRule is the registry value with the rule that comes with OpenSSH on Windows.
const (
	firewallRules = host.CurrentControlSet + `Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules`
	openSSHRule   = "OpenSSH-Server-In-TCP"
)

var sshChecks = []preflightCheck{
	{id: "ssh-profile", severity: steps.SeverityWarning, os: "windows",
		why: "the first network of HNS moves the machine's address to a new adapter, and Windows treats a network that " +
			"it does not know as public: nobody could reach the machine any more", look: sshProfile},
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

// sshProfile looks whether the rule of OpenSSH, where the plan makes none, is for public networks, too. A rule in the
// registry is fields between bars; one without a profile is for all (MS-FASP, 2.2.19).
func sshProfile(ctx context.Context, s *pass) ([]observed, error) {
	if s.q.SSHPort == 0 || !s.q.FirewallOff {
		return nil, nil
	}
	v, there, err := host.LookupRegistry(ctx, s.r, firewallRules, openSSHRule)
	if err != nil || !there {
		return nil, err
	}
	var profiles []string
	for field := range strings.SplitSeq(v.String, "|") {
		if name, ok := strings.CutPrefix(field, "Profile="); ok {
			profiles = append(profiles, name)
		}
	}
	if len(profiles) == 0 || slices.Contains(profiles, "Public") {
		return nil, nil
	}
	return found("admit SSH in all profiles: Set-NetFirewallRule -Name "+openSSHRule+" -Profile Any",
		"the firewall rule %s is for these profiles only: %s", openSSHRule, strings.Join(profiles, ", "))
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
