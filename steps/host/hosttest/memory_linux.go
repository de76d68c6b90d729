package hosttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

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

// PeakMemory runs cmd and returns the most memory, in bytes, that its process had for itself, sampled each
// millisecond. The pages of its file do not count: Linux shares and drops them, and maps some MB more or fewer of
// them by chance.
func PeakMemory(cmd *exec.Cmd) (int, error) {
	if err := cmd.Start(); err != nil { // returns once the process is the program
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	most := 0
	often := time.NewTicker(time.Millisecond)
	defer often.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil && most == 0 {
				err = errors.New("it ended before its memory could be read")
			}
			return most, err
		case <-often.C:
			most = max(most, ownMemory(cmd.Process.Pid))
		}
	}
}

// anonymous is the memory of a process that is not of files (proc_pid_status(5)), in KiB.
var anonymous = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// ownMemory is the memory that a process has for itself, in bytes; 0 if it has ended.
func ownMemory(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // not there after the end
	m := anonymous.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1])) // digits
	return n << 10
}
