package ui

import (
	"os"

	"golang.org/x/sys/windows"
)

// takesSequences reports whether escape sequences work on f. It turns them on at a console, which Windows before
// Windows Terminal does not do by itself (from 1511 on it can).
func takesSequences(f *os.File) bool {
	h := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(h, &mode); err != nil {
		return true // no console: a pipe, a file, or a terminal of MSYS
	}
	mode |= windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	return windows.SetConsoleMode(h, mode) == nil
}
