package eval

import (
	"sync/atomic"
	"time"
)

// Program is a program that is run on the controller without a shell, for what it prints.
type Program struct {
	Command []string // a name without a separator is looked for in PATH
	Env     []string // NAME=value, added to the environment of nodejoin
	Dir     string
	Timeout time.Duration
	Most    int // bytes of standard output
}

// ProgramError is why a program gave nothing.
type ProgramError struct {
	What   string // a part of a sentence: "ended with exit status 3"
	Remedy string // sentences; may be empty
	Stderr string // the end of what it wrote there
}

func (e *ProgramError) Error() string { return e.What }

// waiting counts the time that a scope waits for programs. It may be read while the scope is at work.
type waiting struct{ total, since atomic.Int64 } // nanoseconds; since is of the Unix time, 0 = it is not waiting
