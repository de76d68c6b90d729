package agent

import (
	"os"

	"golang.org/x/sys/windows"
)

// CrashTo has the Go runtime write to a file what it says when it crashes, in the place of
// standard error: that is an overlapped pipe where Win32-OpenSSH runs the program, and the
// runtime's own writes to one can wait forever (golang/go#80979), with the machine's lock
// held. What goes through os.Stderr still goes to the pipe. Without such a file all stays as it is.
func CrashTo(path string) {
	_ = os.Remove(path) // of an earlier crash
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	if err := windows.SetStdHandle(windows.STD_ERROR_HANDLE, windows.Handle(f.Fd())); err != nil {
		_ = f.Close()
		return
	}
	crash = f
}

// crash keeps the file from being closed.
var crash *os.File //nolint:unused // it is written, so that the collector does not close the handle
