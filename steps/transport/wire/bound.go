package wire

import (
	"errors"
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// Bound is what one reply may take of the controller.
type Bound struct {
	Bytes  int // of its line
	Values int // JSON values in it; each costs memory, however short it is written
	// Within is the time to the reply; 0 = no bound.
	Within time.Duration
	// Silence is the time without an event; 0 = no bound.
	Silence time.Duration
}

// Line bounds what the agent says besides replies, in bytes: its hello, an event, what a shell prints before.
const Line = 64 << 10

// depth bounds how deep values of a message lie in each other; replies need 8.
const depth = 32

// Bounds of replies.
const (
	perStep       = 64 << 10 // bytes: a file's content, before and after
	perReply      = 12 << 20 // bytes, of any; a bug report has 4 MiB of text
	valuesOfAll   = 4 << 10
	valuesPerStep = 1 << 10
	valuesMost    = 128 << 10
	// Within and grace are of calls that read: a check has 2 minutes for each step that hangs.
	within = 5 * time.Minute
	// grace is what a call takes besides its steps: it waits for an earlier agent that ends.
	grace = 4 * time.Minute
	// undoSilence is the longest undoing of one thing with the checks around it; undoWithin of everything.
	undoSilence = 15 * time.Minute
	undoWithin  = 6 * time.Hour
)

// reading is the bound of a call that reads n steps.
func reading(n int) Bound {
	return Bound{Bytes: min(1<<20+n*perStep, perReply), Values: min(valuesOfAll+n*valuesPerStep, valuesMost),
		Within: within}
}

// applying bounds an apply by the time that its steps may take.
func applying(specs []steps.Spec) Bound {
	b := reading(len(specs))
	longest := time.Duration(0)
	b.Within = grace
	for _, s := range specs {
		t := timeoutOf(s)
		b.Within += t
		longest = max(longest, t)
	}
	b.Silence = longest + grace
	return b
}

func timeoutOf(s steps.Spec) time.Duration {
	k, _ := kinds.Lookup(s.Kind)
	switch {
	case s.Timeout > 0:
		return s.Timeout
	case k.Timeout > 0:
		return k.Timeout
	}
	return steps.DefaultTimeout
}

// undoing bounds a leave or a rollback; the controller does not know of how many things.
func undoing() Bound {
	return Bound{Bytes: perReply, Values: valuesMost, Within: undoWithin, Silence: undoSilence}
}

// brief bounds a call with a short answer.
func brief(d time.Duration) Bound { return Bound{Bytes: 1 << 20, Values: valuesOfAll, Within: d} }

// OfMethod bounds the calls to the agent itself; wait is that of a LockRequest.
func OfMethod(method string, wait time.Duration) Bound {
	switch method {
	case MethodLock:
		return brief(wait + time.Minute)
	case MethodForget:
		return brief(15 * time.Minute)
	case MethodBlobFetch: // the controller sees how it goes on
		return brief(undoWithin)
	case MethodBlobBegin, MethodBlobPart, MethodBlobEnd, MethodSecure:
		return brief(within)
	}
	return brief(time.Minute)
}

// ErrOversized says that a message holds more values than its bound, or deeper ones.
var ErrOversized = errors.New("message holds too much")

// Holds reports with an error that a JSON text holds more values than most, or deeper ones than any message
// needs. It takes no memory, and leaves invalid JSON to the decoder.
func Holds(b []byte, most int) error {
	n, level, quoted := 1, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			n++
		case c == '}' || c == ']':
			level--
		case c == ',':
			n++
		}
		if n > most || level > depth {
			return fmt.Errorf("%w: over %d values, or %d levels", ErrOversized, most, depth)
		}
	}
	return nil
}
