package hosttest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// pollEvery is the pause between two checks of a service.
const pollEvery = 20 * time.Millisecond

// config returns a service that runs program, or the fixture's. It is removed at the end of the test, before
// the services that it may depend on.
func (s *suite) config(name string, program ...string) host.ServiceConfig {
	s.Helper()
	if len(s.Program) == 0 {
		s.Skip("no program to run as a service")
	}
	name = "njt-" + name
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), limit)
		defer cancel()
		if err := s.Host.StopService(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Error(err)
		}
		if err := s.Host.DeleteService(ctx, name); err != nil {
			s.Error(err)
		}
	})
	if len(program) == 0 {
		program = slices.Clone(s.Program)
	}
	return host.ServiceConfig{Name: name, DisplayName: name, Command: program, Start: host.StartManual}
}

// create registers services that run the fixture's program, each with its dependency after a colon: "b:a".
func (s *suite) create(specs ...string) {
	s.Helper()
	for _, spec := range specs {
		name, on, _ := strings.Cut(spec, ":")
		c := s.config(name)
		for _, d := range strings.Fields(on) {
			c.DependsOn = append(c.DependsOn, "njt-"+d)
		}
		s.must(s.Host.CreateService(s.ctx, c))
	}
}

// await waits until a service is in a state.
func (s *suite) await(name string, want host.ServiceState) host.Service {
	s.Helper()
	var svc host.Service
	err := wait.Until(s.ctx, pollEvery, func() (done bool, err error) {
		svc, err = s.Host.Service(s.ctx, name)
		return svc.State == want, err
	})
	if err != nil {
		s.Fatalf("%s is %q, not %s: %v", name, svc.State, want, err)
	}
	if (svc.PID != 0) != (want != host.ServiceStopped) {
		s.Errorf("%s is %s with process %d", name, svc.State, svc.PID)
	}
	return svc
}

func (s *suite) dependents(name string, want ...string) {
	s.Helper()
	have, err := s.Host.Dependents(s.ctx, name)
	s.must(err)
	if !slices.Equal(have, want) {
		s.Errorf("dependents of %s: %q, want %q", name, have, want)
	}
}

// serviceConfig: after each change every field reads back as it was written.
func (s *suite) serviceConfig() {
	want := s.config("config")
	_, err := s.Host.Service(s.ctx, want.Name)
	s.is("absent service", err, fs.ErrNotExist)
	s.is("update of an absent service", s.Host.UpdateService(s.ctx, want), fs.ErrNotExist)
	want.Command = append(want.Command, "", "two words", `quo"te`, `C:\trailing slash\`, "$HOME", "%PATH%", "ünï")
	s.must(s.Host.CreateService(s.ctx, want))
	check := func(step string) {
		s.Helper()
		have, err := s.Host.Service(s.ctx, want.Name)
		s.must(err)
		s.equal(step, have.ServiceConfig, want)
		if have.State != host.ServiceStopped || have.PID != 0 {
			s.Errorf("%s: %s, process %d", step, have.State, have.PID)
		}
	}
	check("created")
	s.is("created twice", s.Host.CreateService(s.ctx, want), fs.ErrExist)
	base := want
	want.DisplayName, want.Description = "Changed: a name", "made by a test"
	want.Command = append(slices.Clone(s.Program), "other")
	want.DependsOn = []string{"njt-a", "njt-b"} // registered or not
	want.Environment = []string{"A=1", "B=two words", "C=x=y"}
	want.Recovery = []host.RecoveryAction{{Action: "restart", Delay: 5 * time.Second},
		{Action: "restart", Delay: 1500 * time.Millisecond}, {Action: "none"}}
	want.RecoveryReset = 3600
	for _, start := range []host.StartType{host.StartAuto, host.StartDelayed, host.StartDisabled, host.StartManual} {
		want.Start = start
		s.must(s.Host.UpdateService(s.ctx, want))
		check(string(start))
	}
	want.RecoveryReset = 0
	s.must(s.Host.UpdateService(s.ctx, want))
	check("failures never forgotten")
	want = base
	s.must(s.Host.UpdateService(s.ctx, want))
	check("as at first")
	s.must(s.Host.DeleteService(s.ctx, want.Name))
	_, err = s.Host.Service(s.ctx, want.Name)
	s.is("deleted service", err, fs.ErrNotExist)

	short := want
	short.DisplayName = ""
	short.DependsOn, short.Environment = []string{"njt-b", "njt-a"}, []string{"B=2", "A=1"}
	s.must(s.Host.CreateService(s.ctx, short))
	want.DependsOn, want.Environment = []string{"njt-a", "njt-b"}, []string{"A=1", "B=2"}
	check("defaults and order")
}

func (s *suite) serviceInvalid() {
	good := s.config("invalid")
	for what, change := range map[string]func(*host.ServiceConfig){
		"no command":      func(c *host.ServiceConfig) { c.Command = nil },
		"no start type":   func(c *host.ServiceConfig) { c.Start = "" },
		"recovery action": func(c *host.ServiceConfig) { c.Recovery = []host.RecoveryAction{{Action: "explode"}} },
	} {
		bad := good
		change(&bad)
		s.isNoAnswer(what, s.Host.CreateService(s.ctx, bad))
		_, err := s.Host.Service(s.ctx, good.Name)
		s.is(what, err, fs.ErrNotExist)
	}
}

func (s *suite) serviceRun() {
	c := s.config("run")
	s.is("start of an absent service", s.Host.StartService(s.ctx, c.Name), fs.ErrNotExist)
	s.is("stop of an absent service", s.Host.StopService(s.ctx, c.Name), fs.ErrNotExist)
	s.must(s.Host.DeleteService(s.ctx, c.Name))
	s.must(s.Host.CreateService(s.ctx, c))
	s.must(s.Host.StopService(s.ctx, c.Name)) // stopped already
	var last int
	for range 2 {
		s.must(s.Host.StartService(s.ctx, c.Name))
		up := s.await(c.Name, host.ServiceRunning)
		if up.PID == last {
			s.Errorf("the same process %d after a stop", last)
		}
		last = up.PID
		s.is("second start", s.Host.StartService(s.ctx, c.Name), host.ErrServiceRunning)
		s.is("delete while it runs", s.Host.DeleteService(s.ctx, c.Name), host.ErrServiceRunning)
		changed := c
		changed.Description = "changed while it runs"
		s.must(s.Host.UpdateService(s.ctx, changed))
		have, err := s.Host.Service(s.ctx, c.Name)
		s.must(err)
		s.equal("updated while it runs", have, host.Service{ServiceConfig: changed, State: host.ServiceRunning, PID: up.PID})
		s.must(s.Host.StopService(s.ctx, c.Name))
		down, err := s.Host.Service(s.ctx, c.Name)
		s.must(err)
		s.equal("after stop", down, host.Service{ServiceConfig: changed, State: host.ServiceStopped})
		s.must(s.Host.StopService(s.ctx, c.Name))
	}
	for range 2 {
		s.must(s.Host.DeleteService(s.ctx, c.Name))
	}
	_, err := s.Host.Service(s.ctx, c.Name)
	s.is("deleted service", err, fs.ErrNotExist)
}

// serviceStart: a service does not start without what it depends on, and a service that cannot start is not
// reported as absent.
func (s *suite) serviceStart() {
	if !s.NoDependencyStart {
		s.create("base", "mid:base", "top:mid")
		s.must(s.Host.StartService(s.ctx, "njt-top"))
		for _, name := range []string{"njt-base", "njt-mid", "njt-top"} {
			s.await(name, host.ServiceRunning)
		}
	}
	bad := s.config("bad")
	bad.Start = host.StartDisabled
	s.must(s.Host.CreateService(s.ctx, bad))
	s.isNoAnswer("start of a disabled service", s.Host.StartService(s.ctx, bad.Name))
	if s.NoDependencyStart {
		return
	}
	bad.Start, bad.DependsOn = host.StartManual, []string{"njt-unknown"}
	s.must(s.Host.UpdateService(s.ctx, bad))
	s.isNoAnswer("start without what it depends on", s.Host.StartService(s.ctx, bad.Name))
	s.await(bad.Name, host.ServiceStopped)
}

func (s *suite) serviceDependents() {
	s.create("base", "mid:base", "top:mid", "side:base")
	_, err := s.Host.Dependents(s.ctx, "njt-unknown")
	s.is("dependents of an absent service", err, fs.ErrNotExist)
	s.dependents("njt-base")
	s.is("delete what a stopped service depends on", s.Host.DeleteService(s.ctx, "njt-base"), host.ErrDependents)
	for _, name := range []string{"njt-base", "njt-mid", "njt-top", "njt-side"} {
		s.must(s.Host.StartService(s.ctx, name))
		s.await(name, host.ServiceRunning)
	}
	s.dependents("njt-mid", "njt-top")
	s.dependents("njt-top")
	order, err := s.Host.Dependents(s.ctx, "njt-base")
	s.must(err)
	if mid, top := slices.Index(order, "njt-mid"), slices.Index(order, "njt-top"); len(order) != 3 || mid < top ||
		!slices.Contains(order, "njt-side") {
		s.Fatalf("dependents of njt-base: %q", order)
	}
	s.is("stop with running dependents", s.Host.StopService(s.ctx, "njt-base"), host.ErrDependents)
	s.await("njt-base", host.ServiceRunning)
	for _, name := range order { // in the order in which they can be stopped
		s.must(s.Host.StopService(s.ctx, name))
	}
	s.dependents("njt-base")
	s.must(s.Host.StopService(s.ctx, "njt-base"))
	s.is("delete with registered dependents", s.Host.DeleteService(s.ctx, "njt-base"), host.ErrDependents)
}

// programInUse: the file of a running program cannot be replaced or removed until the service has stopped.
func (s *suite) programInUse() {
	if len(s.Program) == 0 {
		s.Skip("no program to run as a service")
	}
	name := "program"
	if s.os == "windows" {
		name += ".exe"
	}
	path, other := s.path("bin", name), s.path("bin", "other")
	from, err := s.Host.Open(s.ctx, s.Program[0])
	s.must(err)
	defer from.Close()
	s.must(s.Host.WriteFile(s.ctx, path, from, host.WriteOptions{Access: host.AccessProgram}))
	before, err := s.Host.Stat(s.ctx, path)
	s.must(err)
	s.put(other, "other")
	c := s.config("inuse", append([]string{path}, s.Program[1:]...)...)
	s.must(s.Host.CreateService(s.ctx, c))
	s.must(s.Host.StartService(s.ctx, c.Name))
	s.await(c.Name, host.ServiceRunning)
	if pids, err := s.Host.Processes(s.ctx, path); err != nil || len(pids) == 0 {
		s.Errorf("the processes of a running program: %v, %v", pids, err)
	}
	if pids, err := s.Host.Processes(s.ctx, other); err != nil || len(pids) > 0 {
		s.Errorf("the processes of a file beside it: %v, %v", pids, err)
	}
	s.is("write", s.Host.WriteFile(s.ctx, path, strings.NewReader("x"), host.WriteOptions{}), host.ErrBusy)
	s.is("rename", s.Host.Rename(s.ctx, other, path), host.ErrBusy)
	s.is("remove", s.Host.Remove(s.ctx, path), host.ErrBusy)
	after, err := s.Host.Stat(s.ctx, path)
	s.must(err)
	s.equal("the program", after, before)
	s.names(s.path("bin"), "other", name)
	old := host.OldName(path)
	s.must(s.Host.Rename(s.ctx, path, old)) // out of the way of another
	s.put(path, "new")
	s.is("remove what was renamed", s.Host.Remove(s.ctx, old), host.ErrBusy)
	s.must(s.Host.Remove(s.ctx, path))
	s.must(s.Host.Rename(s.ctx, old, path))
	s.must(s.Host.StopService(s.ctx, c.Name))
	if pids, err := s.Host.Processes(s.ctx, path); err != nil || len(pids) > 0 {
		s.Errorf("the processes of a program that was stopped: %v, %v", pids, err)
	}
	s.must(s.Host.EndProcesses(s.ctx, path))
	s.must(s.Host.Rename(s.ctx, other, path))
	s.content(path, "other")
	s.must(s.Host.Remove(s.ctx, path))
	s.names(s.path("bin"))
}

// serviceParameters: everything below the key of a service is removed with the service.
func (s *suite) serviceParameters() {
	if !s.Registry {
		s.Skip("no registry")
	}
	c := s.config("parameters")
	s.must(s.Host.CreateService(s.ctx, c))
	key := `HKLM\SYSTEM\CurrentControlSet\Services\` + c.Name + `\Parameters`
	want := host.RegistryValue{Type: "expand_string", String: `C:\k\x.exe`}
	for _, k := range []string{key, key + `\AppExit`} {
		s.must(s.Host.SetRegistryValue(s.ctx, k, "", want))
		have, err := s.Host.RegistryValue(s.ctx, k, "")
		s.must(err)
		s.equal(k, have, want)
	}
	s.must(s.Host.UpdateService(s.ctx, c))
	_, err := s.Host.RegistryValue(s.ctx, key, "")
	s.must(err)
	s.must(s.Host.DeleteService(s.ctx, c.Name))
	for _, k := range []string{key, key + `\AppExit`} {
		_, err := s.Host.RegistryValue(s.ctx, k, "")
		s.is(k+" of a deleted service", err, fs.ErrNotExist)
	}
}
