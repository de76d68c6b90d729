package supervise

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
)

// serve runs as a service where the service control manager started this
// program, else until the console is interrupted.
func serve(c config, w io.Writer) error {
	service, err := svc.IsWindowsService()
	if err != nil {
		return err
	}
	if !service {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		return run(ctx, c, w, func() {})
	}
	h := &handler{config: c, log: w}
	return errors.Join(svc.Run(c.name, h), h.err)
}

type handler struct {
	config config
	log    io.Writer
	err    error
}

// Execute reports running once the program has started for the first time.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending, WaitHint: 30_000}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	up, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		done <- run(ctx, h.config, h.log, func() {
			select {
			case up <- struct{}{}:
			default:
			}
		})
	}()
	current := svc.Status{State: svc.StartPending, WaitHint: 30_000}
	for {
		select {
		case <-up:
			if current.State == svc.StartPending {
				current = svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
				status <- current
			}
		case h.err = <-done:
			if h.err != nil {
				return true, 1
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- current
			case svc.Stop, svc.Shutdown:
				current = svc.Status{State: svc.StopPending, WaitHint: uint32(2 * stopTimeout.Milliseconds())}
				status <- current
				cancel()
			}
		}
	}
}

// process is a running program; job holds it and all its descendants, which end
// when the job's handle is closed, also by this program's own end.
type process struct {
	cmd  *exec.Cmd
	job  windows.Handle
	done chan error // one value, when it has ended
}

func start(command []string, w io.Writer) (*process, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = stopTimeout
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	p := &process{cmd: cmd, job: job, done: make(chan error, 1)}
	if err := p.assign(); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait(), windows.CloseHandle(job))
	}
	go func() { p.done <- cmd.Wait() }()
	return p, nil
}

func (p *process) assign() error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.pid()))
	if err != nil {
		return err
	}
	return errors.Join(windows.AssignProcessToJobObject(p.job, h), windows.CloseHandle(h))
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ask sends CTRL_BREAK to the program's group. A service has no console, so that
// this may fail; then the job is ended at once.
func (p *process) ask() error {
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.pid())); err != nil {
		return p.kill()
	}
	return nil
}

func (p *process) kill() error { return windows.TerminateJobObject(p.job, 1) }
func (p *process) release()    { _ = windows.CloseHandle(p.job) }
