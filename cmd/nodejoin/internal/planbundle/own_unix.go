//go:build unix

package planbundle

import (
	"os"
	"syscall"
)

// own reports whether a folder, not a link to one, belongs to this user: nothing is opened in those of others.
func own(dir string) bool {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
