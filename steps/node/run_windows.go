package node

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
)

// EventID is that of all entries in the event log. The program EventCreate.exe, whose
// messages are the text alone, has ids from 1 to 1000.
const EventID = 1

// Run does the work as a service, where the service manager has started this process,
// and else until it is done or an interrupt comes. It returns the exit code.
func (s Service) Run() int {
	service, err := svc.IsWindowsService()
	if err != nil {
		s.Say("is this a service? " + err.Error())
		return exitFailed
	}
	if !service {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := s.Work(ctx, func(Level, string) {}); err != nil && ctx.Err() == nil {
			return exitFailed
		}
		return exitDone
	}
	if err := svc.Run(s.Name, &handler{s}); err != nil {
		s.Say("the service manager does not answer: " + err.Error())
		return exitFailed
	}
	return exitDone
}

// handler is the service as the service manager sees it. It counts as running from the start, and also
// after its work is done, unless it Ends: a stopped service looks like a fault.
type handler struct{ Service }

// progress is how often a stopping service reports to the manager; the wait hint is twice that.
const progress = 2 * time.Second

// Execute implements svc.Handler.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var keep sync.WaitGroup
		if h.Keep != nil {
			keep.Go(func() { h.Keep(ctx) })
		}
		_ = h.Work(ctx, h.report) // the logs have its error; a restart would meet it again
		keep.Wait()
	}()
	now := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- now
	tick := time.NewTicker(progress)
	defer tick.Stop()
	for stopping := false; ; {
		select {
		case <-done:
			done = nil
			if stopping || h.Ends {
				return false, 0
			}
		case <-tick.C:
			if stopping {
				now.CheckPoint++
				status <- now
			}
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- now
			case svc.Stop, svc.Shutdown:
				if done == nil {
					return false, 0
				}
				if !stopping {
					stopping = true
					now = svc.Status{State: svc.StopPending, CheckPoint: 1, WaitHint: uint32(2 * progress / time.Millisecond)}
					status <- now
					stop()
				}
			}
		}
	}
}

// report writes into the event log of Windows, under the name of the service.
func (h *handler) report(l Level, text string) {
	log, err := eventlog.Open(h.Name)
	if err != nil {
		h.Say("the event log does not open: " + err.Error())
		return
	}
	write := log.Info
	if l == Error {
		write = log.Error
	}
	if err := write(EventID, text); err != nil {
		h.Say("the event log takes nothing: " + err.Error())
	}
	if err := log.Close(); err != nil {
		h.Say("the event log: " + err.Error())
	}
}
