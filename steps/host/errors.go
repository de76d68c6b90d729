package host

import (
	"errors"
	"fmt"
)

// Errors that say what a caller can do. Absence is fs.ErrNotExist, a refused
// access fs.ErrPermission; both are wrapped by *Error.
var (
	ErrUnsupported    = errors.New("not supported on this machine")
	ErrBusy           = errors.New("in use by a running program")
	ErrServiceRunning = errors.New("the service is running")
	ErrDependents     = errors.New("other services depend on it")
	ErrMarkedDeleted  = errors.New("the service is marked for deletion")
	ErrNoSpace        = errors.New("no space left on the volume")
	// ErrDirectory: a directory is where a file is wanted.
	ErrDirectory = errors.New("a directory is in the way")
	// ErrFile: a file is where a directory is wanted.
	ErrFile = errors.New("a file is in the way")
	// ErrServiceExited: the service started and ended by itself.
	ErrServiceExited = errors.New("the service ended by itself")
	// ErrNameUnknown: the machine's resolver does not find a name.
	ErrNameUnknown = errors.New("the name is not found")
	// ErrForeign: users who are not administrators own it, or can change it.
	ErrForeign = errors.New("users who are not administrators own it, or can change it")
	// ErrNoAnswer: a connection was tried and failed, or a service of the machine does not answer now.
	ErrNoAnswer = errors.New("no answer")
	// ErrUnsettled: HNS does not find what a network needs, as for a while after another one has gone.
	ErrUnsettled = errors.New("the network is still changing")
	// ErrShutdownPlanned: the machine refuses a reboot, because a shutdown is planned for a later time.
	ErrShutdownPlanned = errors.New("a shutdown is planned for later")
)

// Error is a failed call: what was asked of the machine, and of what.
type Error struct {
	Op      string // "write file", "start service"
	Subject string // path, service, key\value
	Err     error
}

func (e *Error) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Subject, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// DigestError reports bytes that differ from the expected ones. None of them are kept.
type DigestError struct {
	Subject   string // URL or path of what was read
	Algorithm string // "sha256" or "sha512"
	Want, Got string // lower-case hex
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s of %s: expected %s, found %s", e.Algorithm, e.Subject, e.Want, e.Got)
}
