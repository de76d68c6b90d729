package recipe

import (
	"fmt"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// Services are how the programs of a Windows node run as services.
type Services struct {
	// NSSM: kubelet, flanneld and kube-proxy run under nssm, not as services of their own.
	NSSM     bool
	Priority string // of the kubelet, one of Priorities; "" = normal
	// LogSize bounds a log file, MiB; 0 = 100. LogAge is after how long one that was
	// put aside is removed, as Go writes durations; "" = 168h.
	LogSize int64
	LogAge  string
	// RestartDelay is the time until a service that failed is started again, 0 = 10 s;
	// RestartReset the time without failure after which it counts as new, 0 = 24 h.
	RestartDelay, RestartReset time.Duration
}

// Priorities are the words for the priority of a process: the name of its class, for
// the kubelet, and its number, for nssm (winbase.h).
var Priorities = map[string]struct {
	Class  string
	number uint64
}{
	"normal":       {"NORMAL_PRIORITY_CLASS", 0x20},
	"above_normal": {"ABOVE_NORMAL_PRIORITY_CLASS", 0x8000},
	"high":         {"HIGH_PRIORITY_CLASS", 0x80},
}

// PriorityFlag is the kubelet's flag for its own priority.
const PriorityFlag = "windows-priorityclass"

func (s Services) logSize() int64 {
	if s.LogSize == 0 {
		return 100
	}
	return s.LogSize
}

func (s Services) logAge() string {
	if s.LogAge == "" {
		return "168h"
	}
	return s.LogAge
}

// recovery is a service with what is to happen when it fails.
func (s Services) recovery(v *steps.Service) *steps.Service {
	if s.RestartDelay == 0 && s.RestartReset == 0 || len(v.Recovery) == 0 {
		return v
	}
	out := *v
	out.Recovery = slices.Clone(v.Recovery)
	for i := range out.Recovery {
		if s.RestartDelay != 0 {
			out.Recovery[i].Delay = s.RestartDelay
		}
	}
	if s.RestartReset != 0 {
		out.RecoveryReset = uint32(s.RestartReset / time.Second) //nolint:gosec // the plan bounds it
	}
	return &out
}

// serviceCommand is the command of a service whose program is one of Kubernetes: itself,
// with its log. Under nssm it is the program alone.
func (b *build) serviceCommand(log string, command ...string) []string {
	if b.in.Settings.Services.NSSM {
		return command
	}
	return b.logged(log, command...)
}

// asService is the flag that tells the programs of Kubernetes that they are started by
// the service manager, which under nssm they are not.
func (b *build) asService() []string {
	if b.in.Settings.Services.NSSM {
		return nil
	}
	return []string{"--windows-service"}
}

const nssm = winBin + `\nssm.exe`

// underNSSM makes a service one that nssm runs, where the plan asks for it. nssm reads
// what to do from the parameters of the service (nssm.cc, "Usage"); the environment it
// has from the service manager, and hands it on.
func (b *build) underNSSM(s *steps.Service, priority string) *steps.Service {
	set := b.in.Settings.Services
	if !set.NSSM {
		return s
	}
	text := func(name, v string) steps.ServiceParameter {
		return steps.ServiceParameter{Name: name, Type: "expand_string", String: v}
	}
	number := func(name string, n uint64) steps.ServiceParameter {
		return steps.ServiceParameter{Name: name, Type: "dword", Number: n}
	}
	if priority == "" {
		priority = "normal"
	}
	delay := set.RestartDelay
	if delay == 0 {
		delay = 10 * time.Second
	}
	out := *s
	program := s.Command[0]
	out.Command = []string{nssm}
	out.Parameters = []steps.ServiceParameter{
		text("Application", program), text("AppParameters", host.CommandLine(s.Command[1:])), text("AppDirectory", winBin),
		text("AppStdout", s.Log), text("AppStderr", s.Log),
		// Put aside by size while the program runs; nssm removes none of them.
		number("AppRotateFiles", 1), number("AppRotateOnline", 1), number("AppRotateSeconds", 0), number("AppRotateBytes", uint64(set.logSize())<<20), //nolint:gosec // never negative
		{Name: `AppExit\`, Type: "string", String: "Restart"}, number("AppRestartDelay", uint64(delay.Milliseconds())),
		number("AppPriority", Priorities[priority].number),
		number("AppNoConsole", 1), // 2.24 does not start programs with one on Windows 10 1703 and later (nssm.cc, 2017-04-26)
	}
	out.Watch = append(slices.Clone(s.Watch), nssm)
	if !slices.Contains(out.Watch, program) {
		out.Watch = append(out.Watch, program)
	}
	return &out
}

// afterNSSM are the steps that a service under nssm waits for.
func (b *build) afterNSSM(after ...string) []string {
	if b.in.Settings.Services.NSSM {
		return append(after, "nssm")
	}
	return after
}

// kubeletPriority is the kubelet's flag for its priority.
func (b *build) kubeletPriority() []string {
	s := b.in.Settings.Services
	if s.NSSM || s.Priority == "" {
		return nil
	}
	return []string{fmt.Sprintf("--%s=%s", PriorityFlag, Priorities[s.Priority].Class)}
}
