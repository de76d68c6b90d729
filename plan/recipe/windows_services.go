package recipe

import (
	"fmt"
	"slices"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// Services is how the programs of a Windows node run as services.
type Services struct {
	// NSSM: kubelet, flanneld and kube-proxy run under nssm rather than as services of their own.
	NSSM     bool
	Keep     bool   // nssm stays when the plan no longer has it
	Priority string // of the kubelet, one of Priorities; "" = normal
	// LogSize limits a log file, in MiB; 0 = 100. LogAge is how long a rotated file is kept, a Go duration; "" =
	// 168h.
	LogSize int64
	LogAge  string
	// RestartDelay is the time until a failed service is restarted, 0 = 10 s; RestartReset the time without a
	// failure after which the failure count is reset, 0 = 24 h.
	RestartDelay, RestartReset time.Duration
}

// Priorities maps the words for a process priority to the name of its class, for the kubelet, and to its
// number, for nssm (winbase.h).
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

// recovery returns the service with its recovery settings.
func (s Services) recovery(v *kinds.Service) *kinds.Service {
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
		out.RecoveryReset = uint32(s.RestartReset / time.Second)
	}
	return &out
}

// serviceCommand returns the command of a service that runs a Kubernetes program: the program with its log;
// under nssm the program alone.
func (b *build) serviceCommand(log string, command ...string) []string {
	if b.in.Settings.Services.NSSM {
		return command
	}
	return b.logged(log, command...)
}

// asService returns the flag that tells Kubernetes programs that the service manager starts them, which is
// not the case under nssm.
func (b *build) asService() []string {
	if b.in.Settings.Services.NSSM {
		return nil
	}
	return []string{"--windows-service"}
}

const nssm = winBin + `\nssm.exe`

// underNSSM turns a service into one that nssm runs, if the plan asks for it. nssm reads its settings from
// the parameters of the service (nssm.cc, "Usage"); it passes on the environment that it gets from the
// service manager.
func (b *build) underNSSM(s *kinds.Service, priority string) *kinds.Service {
	set := b.in.Settings.Services
	if !set.NSSM {
		return s
	}
	text := func(name, v string) kinds.ServiceParameter {
		return kinds.ServiceParameter{Name: name, Type: "expand_string", String: v}
	}
	number := func(name string, n uint64) kinds.ServiceParameter {
		return kinds.ServiceParameter{Name: name, Type: "dword", Number: n}
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
	out.Parameters = []kinds.ServiceParameter{
		text("Application", program), text("AppParameters", host.CommandLine(s.Command[1:])), text("AppDirectory", winBin),
		text("AppStdout", s.Log), text("AppStderr", s.Log),
		// Rotated by size while the program runs; nssm never deletes rotated files.
		number("AppRotateFiles", 1), number("AppRotateOnline", 1), number("AppRotateSeconds", 0),
		number("AppRotateBytes", uint64(set.logSize())<<20),
		{Name: `AppExit\`, Type: "string", String: "Restart"}, number("AppRestartDelay", uint64(delay.Milliseconds())),
		number("AppPriority", Priorities[priority].number),
		// 2.24 cannot start programs with a console on Windows 10 1703 and later (nssm.cc, 2017-04-26)
		number("AppNoConsole", 1),
	}
	out.Watch = append(slices.Clone(s.Watch), nssm)
	if !slices.Contains(out.Watch, program) {
		out.Watch = append(out.Watch, program)
	}
	return &out
}

// afterNSSM returns the steps that a service under nssm waits for.
func (b *build) afterNSSM(after ...string) []string {
	if b.in.Settings.Services.NSSM {
		return append(after, "nssm")
	}
	return after
}

// kubeletPriority returns the kubelet's flag for its priority.
func (b *build) kubeletPriority() []string {
	s := b.in.Settings.Services
	if s.NSSM || s.Priority == "" {
		return nil
	}
	return []string{fmt.Sprintf("--%s=%s", PriorityFlag, Priorities[s.Priority].Class)}
}
