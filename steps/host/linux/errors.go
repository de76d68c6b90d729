//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nodejoin/steps/host"
)

// begin refuses a call whose context has ended, and a path that is not absolute.
func begin(ctx context.Context, op, path string) error {
	if ctx.Err() != nil {
		return &host.Error{Op: op, Subject: path, Err: context.Cause(ctx)}
	}
	return failed(op, path, checkPath(path))
}

func checkPath(path string) error {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%w: the path is not absolute", fs.ErrInvalid)
	}
	return nil
}

// kinds maps error numbers to the errors a caller can act on.
var kinds = map[syscall.Errno]error{
	syscall.ENOSPC:  host.ErrNoSpace,
	syscall.EDQUOT:  host.ErrNoSpace,
	syscall.ETXTBSY: host.ErrBusy,
}

// failed wraps the error of a call; nil stays nil. The subject is named once: the
// path that package os puts into its errors is taken off where it is the subject.
func failed(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*host.Error); ok { //nolint:errorlint // what wraps it says its own kind
		return err
	}
	switch e := err.(type) { //nolint:errorlint // the same
	case *fs.PathError:
		if e.Path == subject {
			err = e.Err
		}
	case *os.LinkError:
		if e.New == subject {
			err = e.Err
		}
	}
	if code, ok := errors.AsType[syscall.Errno](err); ok && kinds[code] != nil {
		err = fmt.Errorf("%w (%w)", kinds[code], err)
	}
	return &host.Error{Op: op, Subject: subject, Err: err}
}

// absent treats "a parent is a file" as absence: the file is missing either way.
func absent(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fs.ErrNotExist
	}
	return err
}
