package selftest

import (
	"errors"
	"io/fs"
	"strings"

	"nodejoin/steps/host"
)

// ServiceCommand is the argument by which nodejoin and its agent run Service.
const ServiceCommand = "selftest-service"

// started starts a service that is registered as want, and stops it.
func (t *test) started(want host.ServiceConfig) {
	command, err := t.serviceProgram()
	want.Command = command
	if !t.see("it is given a program", 0, command, errors.Join(err, t.host.UpdateService(t.ctx, want))) {
		return
	}
	t.see("it starts", 0, command, t.host.StartService(t.ctx, want.Name))
	have, err := t.host.Service(t.ctx, want.Name)
	t.see("it runs", 0, have, errors.Join(err, is(have.State == host.ServiceRunning && have.PID != 0)))
	t.see("it stops", 2, nil, t.host.StopService(t.ctx, want.Name))
	have, err = t.host.Service(t.ctx, want.Name)
	t.see("it has stopped", 0, have, errors.Join(err, is(have.State == host.ServiceStopped && have.PID == 0)))
}

// serviceProgram is a command that runs as a service until it is stopped: on Windows this program. A simulated machine
// gets a file that stands for one.
func (t *test) serviceProgram() ([]string, error) {
	if t.native {
		return thisProgram()
	}
	const sleep = "/bin/sleep"
	if _, err := t.host.Stat(t.ctx, sleep); t.facts.OS == "linux" && err == nil {
		return []string{sleep, "600"}, nil
	} else if t.facts.OS == "linux" && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	path := host.Join(t.facts.OS, t.dir, "service.exe")
	return []string{path}, t.host.WriteFile(t.ctx, path, strings.NewReader("simulated"),
		host.WriteOptions{Access: host.AccessProgram})
}
