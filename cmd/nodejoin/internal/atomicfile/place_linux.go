package atomicfile

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// place gives a file a name that is not taken, in one step, and closes it.
func place(f *os.File, name string) error {
	err := unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) { // the file system has no such call
		return link(f, name)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: f.Name(), New: name, Err: err}
	}
	return f.Close()
}
