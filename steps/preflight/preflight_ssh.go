package preflight

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// sshService is that of OpenSSH on Windows.
const sshService = "sshd"

// Where the firewall of Windows keeps its rules and profiles (MS-FASP, 2.2.19), and the rule that comes with OpenSSH.
const (
	firewallKey   = host.CurrentControlSet + `Services\SharedAccess\Parameters\FirewallPolicy\`
	firewallRules = firewallKey + "FirewallRules"
	openSSHRule   = "OpenSSH-Server-In-TCP"
)

var sshChecks = []preflightCheck{
	{id: "ssh-profile", severity: steps.SeverityError, os: "windows",
		why: "the HNS network of the plan moves the machine's address to a new adapter, and Windows treats a network " +
			"that it does not know as public: nobody could reach the machine any more",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			if !s.q.Switch {
				return nil, nil
			}
			return sshProfile(ctx, s)
		}},
	{id: "ssh-profile-later", severity: steps.SeverityWarning, os: "windows",
		why: "the first network of HNS moves the machine's address to a new adapter, and Windows treats a network " +
			"that it does not know as public: nobody could reach the machine any more",
		look: func(ctx context.Context, s *pass) ([]observed, error) {
			if s.q.Switch {
				return nil, nil
			}
			return sshProfile(ctx, s)
		}},
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

// sshProfile looks whether public networks may reach SSH where the plan makes no rule for it.
func sshProfile(ctx context.Context, s *pass) ([]observed, error) {
	port := s.q.SSHPort
	if port == 0 || !s.q.FirewallOff { // the plan's rule is for the port of the connection and those of sshd
		return nil, nil
	}
	if a, has, err := s.owner(ctx); err != nil || has && strings.HasPrefix(a.Name, "vEthernet") {
		return nil, err // the switch is there already
	}
	v, there, err := host.LookupRegistry(ctx, s.r, firewallRules, openSSHRule)
	if err != nil || !there {
		return nil, err
	}
	profiles := ruleFields(v.String)["Profile"]
	if len(profiles) == 0 {
		return nil, nil
	}
	if open, err := publicReachesSSH(ctx, s, port); err != nil || open {
		return nil, err
	}
	return found("admit SSH in all profiles: Set-NetFirewallRule -Name "+openSSHRule+" -Profile Any",
		"the firewall rule %s is for these profiles only: %s", openSSHRule, strings.Join(profiles, ", "))
}

// publicReachesSSH reports whether the firewall is off in public networks, or one of its rules admits the port there.
func publicReachesSSH(ctx context.Context, s *pass, port int) (bool, error) {
	v, there, err := host.LookupRegistry(ctx, s.r, firewallKey+"PublicProfile", "EnableFirewall")
	if err != nil || there && v.Number == 0 {
		return err == nil, err
	}
	names, _, err := host.LookupRegistryNames(ctx, s.r, firewallRules)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		v, there, err := host.LookupRegistry(ctx, s.r, firewallRules, name)
		if err != nil {
			return false, err
		}
		if there && admitsPublic(ruleFields(v.String), port) {
			return true, nil
		}
	}
	return false, nil
}

// ruleFields are the fields of a firewall rule as the registry has it: text between bars.
func ruleFields(rule string) map[string][]string {
	fields := map[string][]string{}
	for field := range strings.SplitSeq(rule, "|") {
		if name, value, ok := strings.Cut(field, "="); ok {
			fields[name] = append(fields[name], value)
		}
	}
	return fields
}

// admitsPublic reports whether a rule admits TCP at the port from everywhere in public networks. A field that a rule
// does not have does not limit it. One for a program or service counts as one for OpenSSH where it names sshd.
func admitsPublic(rule map[string][]string, port int) bool {
	is := func(name, want string) bool {
		return slices.ContainsFunc(rule[name], func(v string) bool { return strings.EqualFold(v, want) })
	}
	free := func(name string, wants ...string) bool {
		return len(rule[name]) == 0 || slices.ContainsFunc(wants, func(want string) bool { return is(name, want) })
	}
	for _, limit := range []string{"RA4", "RA6", "LA4", "LA6", "RPort", "IFType", "IF", "LUAuth", "RUAuth", "Security"} {
		if len(rule[limit]) > 0 {
			return false
		}
	}
	for _, limit := range []string{"App", "Svc"} {
		if len(rule[limit]) > 0 && !strings.Contains(strings.ToLower(rule[limit][0]), sshService) {
			return false
		}
	}
	return is("Action", "Allow") && is("Active", "TRUE") && is("Dir", "In") && free("Protocol", "6") &&
		free("Profile", "Public") && free("LPort", strconv.Itoa(port))
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
