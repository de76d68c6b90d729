package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// tree is a job: it holds the program and all that it starts, and its processes end
// with its last handle, so they never outlive this process.
type tree struct {
	job windows.Handle
	// ownConsole gives the program a console of its own, which no window shows. A
	// service has none to share.
	ownConsole bool
}

// apart is a tree for a program that shares nothing with this process.
func apart() tree { return tree{ownConsole: true} }

func unlocked() func() { return func() {} }

// start starts the program suspended, puts it into a job of its own and resumes it, so that no child
// escapes the job.
func (t *tree) start(cmd *exec.Cmd) error {
	job, err := newJob()
	if err != nil {
		return err
	}
	// An own group: CTRL_BREAK is sent to it alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
	if t.ownConsole {
		cmd.SysProcAttr.CreationFlags |= windows.CREATE_NO_WINDOW
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, windows.CloseHandle(job))
	}
	if err = admit(job, uint32(cmd.Process.Pid)); err == nil {
		t.job = job
		return nil
	}
	// Killed here, so the pipes close and the wait ends.
	killed := cmd.Process.Kill()
	if killed == nil {
		_ = cmd.Wait() // says only that it was killed
	}
	return errors.Join(err, killed, windows.CloseHandle(job))
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create a job: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return 0, errors.Join(fmt.Errorf("limit a job: %w", err), windows.CloseHandle(job))
	}
	return job, nil
}

// admit puts the suspended process into the job and resumes it.
func admit(job windows.Handle, pid uint32) error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	err = windows.AssignProcessToJobObject(job, p)
	if err = errors.Join(err, windows.CloseHandle(p)); err != nil {
		return fmt.Errorf("put process %d into its job: %w", pid, err)
	}
	return resume(pid)
}

// resume lets the only thread of a process that was made suspended run.
func resume(pid uint32) error {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer windows.CloseHandle(list)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(list, &entry); err == nil; err = windows.Thread32Next(list, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open thread %d: %w", entry.ThreadID, err)
		}
		_, err = windows.ResumeThread(thread)
		return errors.Join(err, windows.CloseHandle(thread))
	}
	return fmt.Errorf("find the thread of process %d: %w", pid, err)
}

// interrupt sends CTRL_BREAK, which Go programs see as os.Interrupt. It reaches only
// processes on the sender's console, so this process joins the program's for the call.
func (t *tree) interrupt(p *os.Process) error {
	if t.ownConsole {
		if err := joinConsole(p.Pid); err != nil {
			return err
		}
		defer func() { _, _, _ = freeConsole.Call() }() // it may have been left already
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
}

func (t *tree) kill(*os.Process) error { return windows.TerminateJobObject(t.job, 1) }

func (t *tree) release() error {
	job := t.job
	t.job = 0
	return windows.CloseHandle(job)
}

var (
	kernel32      = windows.NewLazySystemDLL("kernel32.dll")
	attachConsole = kernel32.NewProc("AttachConsole")
	freeConsole   = kernel32.NewProc("FreeConsole")
)

// joinConsole lets this process share the console of another.
func joinConsole(pid int) error {
	if err := errors.Join(attachConsole.Find(), freeConsole.Find()); err != nil {
		return err
	}
	_, _, _ = freeConsole.Call() // fails where there is none to leave
	if ok, _, err := attachConsole.Call(uintptr(pid)); ok == 0 {
		return fmt.Errorf("attach to the console of process %d: %w", pid, err)
	}
	return nil
}
