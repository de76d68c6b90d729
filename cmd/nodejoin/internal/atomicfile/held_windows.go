package atomicfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// hold does nothing: an open file cannot be removed.
func hold(*os.File) error { return nil }

// rename closes a file, as it must before it gets its name.
func rename(f *os.File, name string) error {
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// place gives a file a name that is not taken, in one step, and closes it before.
func place(f *os.File, name string) error {
	if err := f.Close(); err != nil {
		return err
	}
	from, err := windows.UTF16PtrFromString(f.Name())
	if err != nil {
		return err
	}
	to, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(from, to, 0); err != nil {
		return &os.LinkError{Op: "rename", Old: f.Name(), New: name, Err: err}
	}
	return nil
}

// left reports whether a file may be removed, which fails while a run writes it.
func left(string) bool { return true }
