package main

import (
	"errors"

	"golang.org/x/sys/windows"
)

// processRuns tells whether a process of this number runs, whosever it is. One that
// has ended but is still looked at by somebody has an object yet, which is signalled.
func processRuns(pid int) bool {
	p, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return !errors.Is(err, windows.ERROR_INVALID_PARAMETER) // what it says of a number without a process
	}
	defer windows.CloseHandle(p)
	state, err := windows.WaitForSingleObject(p, 0)
	return err != nil || state == uint32(windows.WAIT_TIMEOUT)
}
