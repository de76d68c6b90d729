//go:build unix

package sandbox

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// volumeFree returns the space that is left for users other than root.
func volumeFree(path string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // Bavail is signed on FreeBSD
}

// fileID changes when a file is replaced. Inode numbers are reused, times are not.
func fileID(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x-%x", st.Ino, fi.ModTime().UnixNano())
}
