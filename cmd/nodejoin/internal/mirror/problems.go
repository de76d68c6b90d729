package mirror

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// Meter decides when to say how much was read.
type Meter struct {
	read  int64
	shown time.Time
}

const meterPause = 5 * time.Second

// Add adds bytes. It reports whether it is time to say how many there are.
func (m *Meter) Add(n int64) bool {
	if m.read += n; m.shown.IsZero() {
		m.shown = time.Now()
	}
	if time.Since(m.shown) < meterPause {
		return false
	}
	m.shown = time.Now()
	return true
}

// String is how much was read.
func (m *Meter) String() string { return fmt.Sprintf("%d MB", m.read>>20) }

// Unchecked is why a mirror cannot be compared with the lock.
func Unchecked(it Item, err error) ui.Problem {
	return ui.Problem{Level: "error", Summary: "the mirror cannot be read",
		Detail: ui.CleanLine((&Error{it, err}).Error()) + ".", Remedy: "Check what --to names, the login at a registry, " +
			"and the proxy of this machine (HTTPS_PROXY). Then run the command again."}
}

const noRoom = "no room for the mirror"

// Problems are the problems of single files.
func Problems(err error) []ui.Problem {
	list := []error{err}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		list = all.Unwrap()
	}
	var out []ui.Problem
	for _, err := range list {
		var wrong *WrongBytesError
		var of *Error
		var target *targetError
		p := ui.Problem{Level: "error", Summary: "an artifact cannot be read", Detail: ui.CleanLine(err.Error()) + ".",
			Remedy: "What was read so far stays. Run the command again to continue."}
		switch {
		case errors.As(err, &target):
			p.Summary = "the mirror cannot be written"
			p.Remedy = "What was written so far stays. Run the command again to continue."
		case !errors.As(err, &of):
			p.Summary, p.Remedy = "the mirror cannot be written", "Give a folder that can be made, with --to."
		case errors.As(err, &wrong):
			p.Summary = "wrong digest"
			p.Detail += " It was cut, changed or tampered with, and is not in the mirror."
			p.Remedy = "Ask its publisher. 'nodejoin lock' compares what is there with the lock."
		case errors.Is(err, syscall.ENOSPC):
			p.Summary, p.Remedy = noRoom, "Make room, and run the command again. It continues."
		case errors.Is(err, os.ErrPermission):
			p.Summary, p.Remedy = "the mirror cannot be written", "Give this user the right to write there."
		}
		full := p.Summary == noRoom
		if !full || !slices.ContainsFunc(out, func(o ui.Problem) bool { return o.Summary == noRoom }) { // once for all files
			out = append(out, p)
		}
	}
	return out
}
