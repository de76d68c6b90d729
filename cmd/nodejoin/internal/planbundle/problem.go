package planbundle

import (
	"errors"
	"syscall"

	"nodejoin/cmd/nodejoin/internal/mirror"
	"nodejoin/cmd/nodejoin/internal/ui"
)

// Problem is what an error of a bundle means to a person; ok is false if it is not about a bundle.
func Problem(err error) (p ui.Problem, ok bool) {
	var damaged *DamagedError
	var of *FileError
	var wrong *mirror.WrongBytesError
	p = ui.Problem{Level: "error", Detail: ui.CleanLine(err.Error()) + "."}
	switch {
	case errors.As(err, &damaged):
		p.Summary = "the bundle is damaged"
		p.Remedy = "Copy it again from where it was made, all of its parts, and compare it with 'nodejoin bundle --check'."
	case errors.Is(err, syscall.ENOSPC):
		p.Summary, p.Remedy = "no room for the bundle", "Make room, and run the command again. It continues."
	case errors.As(err, &wrong):
		p.Summary, p.Remedy = "wrong digest", "Ask its publisher. 'nodejoin lock' compares what is there with the lock."
	case errors.As(err, &of):
		p.Summary = "the bundle cannot be completed"
		p.Remedy = "What was written so far stays. Run the command again to continue."
	default:
		return p, false
	}
	return p, true
}
