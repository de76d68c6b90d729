//go:build unix && !linux

package atomicfile

import "os"

// place gives a file a name that is not taken, and closes it.
func place(f *os.File, name string) error { return link(f, name) }
