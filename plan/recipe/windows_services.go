package recipe

import (
	"fmt"
	"slices"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

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

// logged returns the command of a service that writes to its standard error: run through kube-log-runner if
// the node archive has it, otherwise told to write the file itself. Both limit the size of the file,
// kube-log-runner since 1.34.
func (b *build) logged(log string, command ...string) []string {
	s := b.in.Settings.Services
	if !b.kubernetes.LogRunner {
		// MiB; klog v2 klog.go
		flags := []string{"--logtostderr=false", "--log-file=" + log, fmt.Sprintf("--log-file-max-size=%d", s.logSize())}
		return slices.Concat(command[:1], flags, command[1:])
	}
	runner := []string{b.logRunner(), "-log-file=" + log}
	if b.kubernetes.LogRunnerRotationFlags {
		runner = append(runner, fmt.Sprintf("-log-file-size=%dMi", s.logSize()), "-log-file-age="+s.logAge(),
			"-flush-interval=5s")
	}
	return append(runner, command...)
}

func (b *build) logRunner() string { return winBin + `\kube-log-runner.exe` }

// programs returns the files that a Kubernetes service runs from.
func (b *build) programs(name string) []string {
	if !b.kubernetes.LogRunner || b.in.Settings.Services.NSSM {
		return join(winBin, name)
	}
	return append(join(winBin, name), b.logRunner())
}

// winService is a service that starts with the machine and restarts after a failure.
func winService(name, description string, command []string, dependsOn ...string) host.ServiceConfig {
	again := host.RecoveryAction{Action: "restart", Delay: 10 * time.Second}
	return host.ServiceConfig{Name: name, DisplayName: name, Description: description, Command: command,
		Start:     host.StartAuto,
		DependsOn: dependsOn, Recovery: []host.RecoveryAction{again, again, again}, RecoveryReset: 86400}
}
