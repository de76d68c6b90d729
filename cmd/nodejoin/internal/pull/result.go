package pull

import (
	"errors"
	"fmt"
)

// Exit codes of a round.
const (
	exitOK          = 0
	exitFailed      = 1
	exitNotFetched  = 4
	exitLocked      = 7 // of an apply: another run holds the machine
	exitInterrupted = 130
)

// waits is the result of a round that applies nothing yet.
func waits(rel Release, what string) Result {
	return Result{Waiting, rel.Serial, fmt.Sprintf("release %d waits for %s", rel.Serial, what)}
}

// failed is the result of a round in which nothing was changed.
func failed(rel Release, err error) (Result, int) {
	if errors.As(err, new(*fetchedError)) {
		return Result{NotFetched, rel.Serial, err.Error()}, exitNotFetched
	}
	if errors.As(err, new(*ownError)) {
		return Result{Failed, rel.Serial, err.Error()}, exitFailed
	}
	return Result{Refused, rel.Serial, err.Error()}, exitFailed
}
