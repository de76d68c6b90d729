package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// start runs a line in the default shell as w32-doexec.c of PowerShell/openssh-portable does: in a job that ends with
// the shell, and with pipes whose both ends are overlapped.
func start(line string, env []string) (_ *process, err error) {
	var ends [3]windows.Handle // of the process; inherited
	var own [3]*os.File
	defer func() {
		for i := range ends {
			if ends[i] != 0 {
				err = errors.Join(err, windows.CloseHandle(ends[i]))
			}
			if own[i] != nil && err != nil {
				own[i].Close()
			}
		}
	}()
	for i := range ends {
		var mine windows.Handle
		if mine, ends[i], err = pipe(i == 0); err != nil {
			return nil, fmt.Errorf("pipe: %w", err)
		}
		own[i] = os.NewFile(uintptr(mine), "pipe")
	}
	p, err := create(shell(line), env, ends)
	if err != nil {
		return nil, err
	}
	return &process{own[0], own[1], own[2], func() (int, error) {
		defer windows.CloseHandle(p)
		if _, err := windows.WaitForSingleObject(p, windows.INFINITE); err != nil {
			return 0, err
		}
		var code uint32
		err := windows.GetExitCodeProcess(p, &code)
		return int(code), err
	}}, nil
}

// shell is the command line. cmd.exe gets the line unchanged, which quotes by rules of its own; any other shell gets
// it as one argument after -c.
func shell(line string) string {
	path := ""
	if k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\OpenSSH`, registry.QUERY_VALUE); err == nil {
		path, _, _ = k.GetStringValue("DefaultShell") // "" = none is set
		k.Close()
	}
	if path == "" || strings.EqualFold(filepath.Base(path), "cmd.exe") {
		return `cmd.exe /c "` + line + `"`
	}
	return windows.EscapeArg(path) + " -c " + windows.EscapeArg(line)
}

// pipeSize of fileio_pipe, in bytes.
const pipeSize = 4096

var pipes atomic.Uint64

// pipe is fileio_pipe: a named pipe whose ends are both overlapped. reads says that the process reads from it.
func pipe(reads bool) (mine, its windows.Handle, err error) {
	name, err := windows.UTF16PtrFromString(fmt.Sprintf(`\\.\pipe\W32PosixPipe.%08x.%08x`, os.Getpid(), pipes.Add(1)))
	if err != nil {
		return 0, 0, err
	}
	inherit := &windows.SecurityAttributes{InheritHandle: 1}
	inherit.Length = uint32(unsafe.Sizeof(*inherit))
	mode, access := uint32(windows.PIPE_ACCESS_INBOUND), uint32(windows.GENERIC_WRITE)
	if reads {
		mode, access = windows.PIPE_ACCESS_OUTBOUND, windows.GENERIC_READ
	}
	mine, err = windows.CreateNamedPipe(name, mode|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT, 1, pipeSize, pipeSize, 0, nil)
	if err != nil {
		return 0, 0, err
	}
	its, err = windows.CreateFile(name, access, 0, inherit, windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		return 0, 0, errors.Join(err, windows.CloseHandle(mine))
	}
	return mine, its, nil
}

// create starts the process in a job of its own, whose last handle it holds itself.
func create(line string, env []string, ends [3]windows.Handle) (windows.Handle, error) {
	job, err := newJob()
	if err != nil {
		return 0, fmt.Errorf("job: %w", err)
	}
	defer windows.CloseHandle(job)
	list, err := windows.NewProcThreadAttributeList(1)
	if err != nil {
		return 0, err
	}
	defer list.Delete()
	if err := list.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&ends[0]),
		unsafe.Sizeof(ends)); err != nil {
		return 0, err
	}
	info := &windows.StartupInfoEx{ProcThreadAttributeList: list.List()}
	info.Cb, info.Flags = uint32(unsafe.Sizeof(*info)), windows.STARTF_USESTDHANDLES
	info.StdInput, info.StdOutput, info.StdErr = ends[0], ends[1], ends[2]
	text, err := windows.UTF16PtrFromString(line)
	if err != nil {
		return 0, err
	}
	block, err := windows.UTF16FromString(strings.Join(env, "\x01"))
	if err != nil {
		return 0, err
	}
	for i, c := range block {
		if c == 1 {
			block[i] = 0
		}
	}
	block = append(block, 0)
	var p windows.ProcessInformation
	if err := windows.CreateProcess(nil, text, nil, nil, true, windows.CREATE_SUSPENDED|
		windows.CREATE_UNICODE_ENVIRONMENT|windows.EXTENDED_STARTUPINFO_PRESENT, &block[0], nil, &info.StartupInfo,
		&p); err != nil {
		return 0, err
	}
	defer windows.CloseHandle(p.Thread)
	var held windows.Handle
	err = errors.Join(windows.AssignProcessToJobObject(job, p.Process),
		windows.DuplicateHandle(windows.CurrentProcess(), job, p.Process, &held, 0, false, windows.DUPLICATE_SAME_ACCESS))
	if err == nil {
		_, err = windows.ResumeThread(p.Thread)
	}
	if err != nil {
		return 0, errors.Join(err, windows.TerminateProcess(p.Process, 255), windows.CloseHandle(p.Process))
	}
	return p.Process, nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return 0, errors.Join(err, windows.CloseHandle(job))
	}
	return job, nil
}
