package hosttest

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// InMemory puts the temporary folders of a test program into memory, if the system has a file system for that
// which is large enough and allows programs to run. The sandboxes of tests create many small files, which takes
// ten times as long on a disk. Call it from TestMain. It does not change a TMPDIR that is set.
//
// It also makes the garbage collector run less often, unless GOGC says how often: what lives in such a test is small,
// and a quarter of its time went into collections.
func InMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	const folder, enough = "/dev/shm", 4 << 30
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(folder, &fs) != nil || unix.Access(folder, unix.W_OK) != nil {
		return
	}
	if fs.Type == unix.TMPFS_MAGIC && fs.Flags&unix.ST_NOEXEC == 0 && fs.Bavail*uint64(fs.Bsize) > enough {
		_ = os.Setenv("TMPDIR", folder)
	}
}
