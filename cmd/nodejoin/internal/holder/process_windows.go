package holder

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Runs reports whether a process with this number is running, of any user. A
// process that has ended keeps its object while a handle is open; then it is signalled.
func Runs(pid int) bool {
	p, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return !errors.Is(err, windows.ERROR_INVALID_PARAMETER) // the error for a number without a process
	}
	defer windows.CloseHandle(p)
	state, err := windows.WaitForSingleObject(p, 0)
	return err != nil || state == uint32(windows.WAIT_TIMEOUT)
}
