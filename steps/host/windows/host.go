//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// Host is the machine this program runs on. It is safe for concurrent use.
type Host struct {
	dataDir string
	trusted []*windows.SID // who may read a private file: see access.go
	// featureService is the command that runs FeatureService; nil = there is none
	featureService []string

	factsMu sync.Mutex
	facts   *host.Facts
}

// begin rejects a call whose context has ended, and a path that is not absolute.
func begin(ctx context.Context, op, path string) error {
	if ctx.Err() != nil {
		return &host.Error{Op: op, Subject: path, Err: context.Cause(ctx)}
	}
	if !filepath.IsAbs(path) {
		return &host.Error{Op: op, Subject: path, Err: errors.New("the path is not absolute")}
	}
	return nil
}

// kinds maps native error codes to the errors a caller can act on.
var kinds = []struct {
	code syscall.Errno
	kind error
}{
	{windows.ERROR_SHARING_VIOLATION, host.ErrBusy},
	{windows.ERROR_LOCK_VIOLATION, host.ErrBusy},
	{windows.ERROR_USER_MAPPED_FILE, host.ErrBusy},
	{windows.ERROR_DISK_FULL, host.ErrNoSpace},
	{windows.ERROR_HANDLE_DISK_FULL, host.ErrNoSpace},
	{windows.ERROR_DISK_QUOTA_EXCEEDED, host.ErrNoSpace},
	{windows.ERROR_SERVICE_DOES_NOT_EXIST, fs.ErrNotExist},
	{windows.ERROR_SERVICE_EXISTS, fs.ErrExist},
	{windows.ERROR_SERVICE_ALREADY_RUNNING, host.ErrServiceRunning},
	{windows.ERROR_SERVICE_MARKED_FOR_DELETE, host.ErrMarkedDeleted},
	{windows.ERROR_DEPENDENT_SERVICES_RUNNING, host.ErrDependents},
	{windows.ERROR_PROCESS_ABORTED, host.ErrServiceExited},
}

// failed wraps the error of a native call; nil stays nil. The subject is named
// once: the path that package os puts into its errors is taken off.
func failed(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	var known *host.Error
	if errors.As(err, &known) {
		return err
	}
	switch e := err.(type) { //nolint:errorlint // what wraps the native error says its kind
	case *fs.PathError:
		err = e.Err
	case *os.LinkError:
		err = e.Err
	}
	var code syscall.Errno
	if errors.As(err, &code) {
		for _, k := range kinds {
			if k.code == code {
				err = fmt.Errorf("%w (%w)", k.kind, err)
				break
			}
		}
	}
	return &host.Error{Op: op, Subject: subject, Err: err}
}
