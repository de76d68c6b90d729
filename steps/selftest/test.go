package selftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

const (
	// perArea bounds one area, with its loopback adapter at most; perUndo what undoes it.
	perArea = 3 * time.Minute
	perUndo = 2 * time.Minute
	// Within bounds the whole test.
	Within = 30 * time.Minute
)

// test is one run on one machine.
type test struct {
	host   host.Host
	facts  host.Facts
	dir    string // a folder of its own
	report Report
	// native: the calls that package host does not have go to the machine of host; nativeWhy says why not.
	native    bool
	nativeWhy error

	run   context.Context
	ctx   context.Context // of the area
	name  string          // of the area
	undos []undo
}

type undo struct {
	what string
	do   func(ctx context.Context) error
}

// area runs one part and undoes what it did, also after an interruption.
func (t *test) area(name string, run func(*test)) {
	ctx, cancel := context.WithTimeout(t.run, perArea)
	defer cancel()
	t.ctx, t.name = ctx, name
	run(t)
	back, stop := context.WithTimeout(context.WithoutCancel(t.run), perUndo)
	defer stop()
	for _, u := range slices.Backward(t.undos) {
		if err := u.do(back); err != nil {
			t.see(u.what, 0, nil, err)
		}
	}
	t.undos = nil
}

// errNotAsked says that a question could not be put to the machine.
var errNotAsked = errors.New("not asked")

// errOther says that the machine answered, and not as expected.
var errOther = errors.New("not as expected")

// see adds a result: as expected where err is nil. It reports whether it is.
func (t *test) see(name string, claim int, seen any, err error) bool {
	r := Result{Area: t.name, Name: name, Claim: claim, Outcome: AsExpected}
	if seen != nil {
		r.Seen = fmt.Sprintf("%+v", seen)
	}
	switch {
	case errors.Is(err, host.ErrUnsupported), errors.Is(err, errNotAsked):
		r.Outcome, r.Seen = NotAsked, err.Error()
	case errors.Is(err, errOther) && r.Seen != "":
		r.Outcome = Otherwise
	case err != nil:
		r.Outcome, r.Seen = Otherwise, strings.TrimPrefix(r.Seen+"; "+err.Error(), "; ")
	}
	t.report.Results = append(t.report.Results, r)
	return err == nil
}

// is is nil if the machine did as expected, and errOther if not.
func is(expected bool) error {
	if expected {
		return nil
	}
	return errOther
}

// isError is nil if err is of the kind that is expected, and errOther if not.
func isError(err, want error) error { return is(errors.Is(err, want)) }
