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
	"time"

	"github.com/gofrs/flock"

	"nodejoin/steps/host"
)

// Options say how a Host works.
type Options struct {
	// DataDir is nodejoin's own folder; default /var/lib/nodejoin.
	DataDir string
	// EnvFile holds the machine's environment, one NAME=value a line; default
	// /etc/environment.
	EnvFile string
	// Supervisor has services run by nodejoin's own manager, also under systemd.
	Supervisor bool
}

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

var _ host.Host = (*Host)(nil)

// New returns the machine this program runs on. Nothing is written before the first
// call that changes the machine.
func New(opt Options) (*Host, error) {
	if opt.DataDir == "" {
		opt.DataDir = "/var/lib/nodejoin"
	}
	if opt.EnvFile == "" {
		opt.EnvFile = "/etc/environment"
	}
	for _, p := range []string{opt.DataDir, opt.EnvFile} {
		if err := checkPath(p); err != nil {
			return nil, &host.Error{Op: "open machine", Subject: p, Err: err}
		}
	}
	h := &Host{dataDir: filepath.Clean(opt.DataDir), envFile: opt.EnvFile, nameFile: "/etc/hostname", trust: trustStores,
		children: map[processID]*child{}}
	manager, err := initSystem()
	if err != nil {
		return nil, &host.Error{Op: "open machine", Subject: "service manager", Err: err}
	}
	h.services = supervisor{h}
	if manager == "systemd" && !opt.Supervisor {
		h.services = systemd{h}
	}
	return h, nil
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

// lockPoll is the pause between two tries to get the lock.
const lockPoll = 10 * time.Millisecond

// locked runs f while no other process changes services or environment; the wait
// ends with ctx.
func (h *Host) locked(ctx context.Context, f func() error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := makeDirs(h.dataDir); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(h.dataDir, ".host.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("lock: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return f()
}
