package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
)

// run keeps the program running until the service manager that started this process stops it, or without
// one until an interrupt.
func run(opt options, log *log) int {
	service, err := svc.IsWindowsService()
	if err != nil {
		log.Say("not started: is this a service? %v", err)
		return exitFailed
	}
	if !service {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return foreground(ctx, opt, log)
	}
	if err := svc.Run(opt.name, &handler{opt: opt, log: log}); err != nil {
		log.Say("the service manager does not answer: %v", err)
		return exitFailed
	}
	return exitDone
}

// handler is the service as the service manager sees it.
type handler struct {
	opt options
	log *log
}

// progress is how often a stopping service reports to the manager; the wait hint is twice that.
const progress = 2 * time.Second

// Execute implements svc.Handler. args[0] is the name under which the service is registered.
func (h *handler) Execute(args []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (specific bool,
	code uint32) {
	status <- svc.Status{State: svc.StartPending, WaitHint: uint32(2 * progress / time.Millisecond)}
	name := h.opt.name
	if len(args) > 0 && args[0] != "" {
		name = args[0]
	}
	own, err := serviceEnvironment(name)
	if err != nil {
		h.log.Say("not started: environment of the service: %v", err)
		return false, exitCode(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	running := make(chan struct{})
	done := make(chan error, 1)
	env := append(os.Environ(), own...) // a later entry of the same name counts
	s := &supervisor{delay: h.opt.delay, log: h.log, started: func() { close(running) },
		start: func() (program, error) { return startProcess(h.opt.command, env, "", h.log, tree{ownConsole: true}) }}
	go func() { done <- s.run(ctx) }()
	return h.serve(stop, running, done, requests, status)
}

// serve answers the manager until the supervisor is done.
func (h *handler) serve(stop func(), running <-chan struct{}, done <-chan error, requests <-chan svc.ChangeRequest,
	status chan<- svc.Status) (bool, uint32) {
	now := svc.Status{State: svc.StartPending}
	tick := time.NewTicker(progress)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return false, exitCode(err)
			}
			return false, 0
		case <-running:
			running = nil
			if now.State == svc.StartPending {
				now = svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
				status <- now
			}
		case <-tick.C:
			if now.State == svc.StopPending {
				now.CheckPoint++
				status <- now
			}
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- now
			case svc.Stop, svc.Shutdown:
				if now.State != svc.StopPending {
					now = svc.Status{State: svc.StopPending, CheckPoint: 1, WaitHint: uint32(2 * progress / time.Millisecond)}
					status <- now
					stop()
				}
			}
		}
	}
}

// exitCode is the code of Windows in err, so that the manager's own log names the cause.
func exitCode(err error) uint32 {
	if code, ok := errors.AsType[syscall.Errno](err); ok && code != 0 {
		return uint32(code)
	}
	return uint32(windows.ERROR_PROCESS_ABORTED)
}

// serviceEnvironment is the Environment value of a registered service. Windows has
// put it into this process's environment already; other service managers have not.
func serviceEnvironment(name string) ([]string, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\`+name, registry.QUERY_VALUE)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the key of %s: %w", name, err)
	}
	values, _, err := k.GetStringsValue("Environment")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return values, errors.Join(err, k.Close())
}
