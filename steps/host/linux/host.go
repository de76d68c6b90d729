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
	"sync"
	"syscall"

	"nodejoin/steps/host"
)

// Host is the machine this program runs on. It is safe for concurrent use, also by
// several processes.
type Host struct {
	dataDir  string
	envFile  string
	nameFile string
	services serviceManager
	trust    []trustStore // the first that is there

	factsMu sync.Mutex
	facts   *host.Facts

	childMu  sync.Mutex
	children map[processID]*child
}

// serviceManager is what registers and runs the services of this machine: systemd
// where it is process 1, else nodejoin's own. The methods are those of host.Host.
type serviceManager interface {
	Service(ctx context.Context, name string) (host.Service, error)
	Dependents(ctx context.Context, name string) ([]string, error)
	CreateService(ctx context.Context, c host.ServiceConfig) error
	UpdateService(ctx context.Context, c host.ServiceConfig) error
	StartService(ctx context.Context, name string) error
	StopService(ctx context.Context, name string) error
	DeleteService(ctx context.Context, name string) error
}

// child is a process that this one started, and that it must therefore reap.
type child struct {
	ended bool
	code  int
}

// trustStore is how a distribution keeps trusted authorities: a folder of the administrator's certificates,
// and a program that builds the rest from it.
type trustStore struct {
	anchors string   // folder, one certificate a file
	program string   // in one of sbinDirs
	update  []string // its arguments after a certificate came
	rebuild []string // and after one went
	bundle  string   // all of them, as programs read them
}

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
