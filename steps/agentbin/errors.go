package agentbin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"nodejoin/steps"
)

// ErrNoAgent says that no agent is embedded for the machine and none can be built.
var ErrNoAgent = errors.New("no agent for this machine")

// Unusable is the error of a folder of the cache that is full, or cannot be written or read; nil stays nil. It is a
// *steps.Error, and about the controller: no machine has been asked anything.
func Unusable(dir string, err error) error {
	if err == nil {
		return nil
	}
	e := &steps.Error{Code: steps.CodeFailed, Summary: "the controller's cache cannot be used",
		Detail: fmt.Sprintf("nodejoin keeps the agents for hosts in %s on this machine: %v", dir, reason(err)),
		Remedy: "make that folder readable and writable for this user, or set " + cacheVariable() +
			" to another folder; then run the same command again"}
	switch {
	case dir == "":
		e.Detail = "nodejoin keeps the agents for hosts in a folder of this machine: " + err.Error()
		e.Remedy = "set " + cacheVariable() + " to a folder for them; then run the same command again"
	case full(err):
		e.Code, e.Summary = steps.CodeNoSpace, "the controller's cache is full"
		e.Remedy = "free space on that volume, or set " + cacheVariable() +
			" to a folder on another one; then run the same command again"
	}
	return e
}

// reason is an error of a file without the file's name, which may be another one each time.
func reason(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// Errors of Windows ([MS-ERREF] 2.2).
const (
	errAccessDenied      = syscall.Errno(5)
	errSharingViolation  = syscall.Errno(32)
	errHandleDiskFull    = syscall.Errno(39)
	errDiskFull          = syscall.Errno(112)
	errDiskQuotaExceeded = syscall.Errno(1295)
)

// full reports whether an error says that a volume is full, or the user's part of it.
func full(err error) bool {
	var n syscall.Errno
	if runtime.GOOS == "windows" && errors.As(err, &n) {
		return n == errHandleDiskFull || n == errDiskFull || n == errDiskQuotaExceeded
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// inUse reports whether an error may come of a file that another process has open. Other systems have no such errors.
func inUse(err error) bool {
	var n syscall.Errno
	return runtime.GOOS == "windows" && errors.As(err, &n) && (n == errAccessDenied || n == errSharingViolation)
}

// cacheVariable is the environment variable that says where the cache is (os.UserCacheDir).
func cacheVariable() string {
	switch runtime.GOOS {
	case "windows":
		return "LocalAppData"
	case "darwin":
		return "HOME"
	}
	return "XDG_CACHE_HOME"
}
