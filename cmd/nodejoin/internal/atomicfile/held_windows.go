package atomicfile

import "os"

// hold does nothing: an open file cannot be removed.
func hold(*os.File) {}

// rename closes a file, as it must before it gets its name.
func rename(f *os.File, name string) error {
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// left reports whether a file may be removed, which fails while a run writes it.
func left(string) bool { return true }
