//go:build unix

package ui

import (
	"os"

	"github.com/charmbracelet/x/termios"
	"golang.org/x/sys/unix"
)

// stopEcho keeps a terminal from showing typed keys, which would move its cursor. Ctrl-C still interrupts. The
// returned function restores it. In the background, where it would stop the process, nothing is changed.
func stopEcho(f *os.File) (restore func()) {
	fd := int(f.Fd())
	before, err := termios.GetTermios(fd)
	if err != nil || before.Lflag&unix.ECHO == 0 {
		return func() {}
	}
	set := func(on bool) {
		if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
			return
		}
		in, out := uint32(before.Ispeed), uint32(before.Ospeed) //nolint:unconvert // 64 bits on macOS
		// If it fails, keys are shown.
		_ = termios.SetTermios(fd, in, out, nil, nil, nil, nil, map[termios.L]bool{termios.ECHO: on})
	}
	set(false)
	return func() { set(true) }
}
