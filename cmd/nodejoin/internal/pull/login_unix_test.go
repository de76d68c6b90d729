//go:build unix

package pull

import (
	"errors"
	"iter"
	"os"
	"testing"
)

// closeFile closes a file to others, which its mode does here.
func closeFile(*testing.T, string) {}

// openFile lets others write a file, in each way that there is, and gives what is said of it.
func openFile(t *testing.T, file string) iter.Seq[string] {
	return func(yield func(string) bool) {
		must(t, os.Chmod(file, 0o622))
		more := yield("others may write it (mode -rw--w--w-)")
		must(t, os.Chmod(file, 0o600))
		if !more || os.Geteuid() != 0 { // only root can give a file away
			return
		}
		const nobody = 65534
		must(t, errors.Join(os.Chmod(file, 0o644), os.Chown(file, nobody, nobody)))
		more = yield("belongs to another user")
		must(t, errors.Join(os.Chmod(file, 0o600), os.Chown(file, 0, 0)))
		if !more {
			return
		}
		link := file + ".is"
		must(t, errors.Join(os.Rename(file, link), os.Symlink(link, file), os.Lchown(file, nobody, nobody)))
		yield("belongs to another user")
		must(t, os.Rename(link, file))
	}
}
