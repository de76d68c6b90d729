// Package selftest makes the calls that nodejoin makes on a machine, on things of its own, and reports what the
// machine does. It removes what it makes, and compares the machine with how it was before.
//
// Each result says which claim about Windows it is about: the numbered table of examples/proof.md.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// Version is that of the file of evidence.
const Version = 1

// Request asks a machine to test itself.
type Request struct {
	// Areas are the parts of the test; none = all.
	Areas []string `json:"areas,omitempty"`
}

// Report is what a machine did: the content of a file of evidence.
type Report struct {
	Version  int       `json:"version"`
	Build    string    `json:"build"`    // Windows with its revision, "20348.2582"; Linux: the kernel
	Language string    `json:"language"` // of the system, "ko-KR"; "" = not known
	Edition  string    `json:"edition"`  // "Windows Server 2022 Datacenter"
	Nodejoin string    `json:"nodejoin"` // version of the program that asked
	Time     time.Time `json:"time"`     // when it began, UTC
	Run      string    `json:"run"`      // address of the run that anyone can look up; "" = there is none
	// AsBefore: the machine is as it was. Otherwise Differs says what is not.
	AsBefore bool     `json:"as_before"`
	Differs  []string `json:"differs,omitempty"`
	Results  []Result `json:"results"`
}

// Result is the answer to one question.
type Result struct {
	Area  string `json:"area"`
	Name  string `json:"name"`            // what is expected, as a sentence
	Claim int    `json:"claim,omitempty"` // the claim about Windows that it is about; 0 = none of the table
	// Outcome is one of Outcomes.
	Outcome string `json:"outcome"`
	Seen    string `json:"seen" lines:"true"` // what the machine said
}

// What a result can be.
const (
	AsExpected = "as expected"
	Otherwise  = "otherwise"
	NotAsked   = "not asked" // the machine cannot be asked that
)

// Outcomes are all of them.
var Outcomes = []string{AsExpected, Otherwise, NotAsked}

// FileName is the name of the report as a file of evidence, with the name of its node; "" = this machine.
func (r Report) FileName(node string) string {
	parts := slices.DeleteFunc([]string{r.Build, r.Language, node}, func(s string) bool { return s == "" })
	odd := func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c) {
			return c
		}
		return '_'
	}
	return strings.Map(odd, strings.Join(parts, "-")) + ".json"
}

// Count returns how many results have an outcome.
func (r Report) Count(outcome string) (n int) {
	for _, one := range r.Results {
		if one.Outcome == outcome {
			n++
		}
	}
	return n
}

const (
	// perArea bounds one area, with its loopback adapter at most; perUndo what undoes it.
	perArea = 3 * time.Minute
	perUndo = 2 * time.Minute
	// Within bounds the whole test.
	Within = 30 * time.Minute
)

// areas in their order. Network interrupts nothing but comes last: if it is wrong about the loopback adapter, the
// rest has been seen.
var areas = []struct {
	name string
	os   string // "" = any
	run  func(t *test)
}{
	{"machine", "", (*test).machine},
	{"files", "", (*test).files},
	{"programs", "", (*test).programs},
	{"services", "", (*test).services},
	{"registry", "windows", (*test).registry},
	{"environment", "windows", (*test).environment},
	{"firewall", "windows", (*test).firewall},
	{"features", "windows", (*test).features},
	{"ports", "windows", (*test).ports},
	{"authorities", "", (*test).authorities},
	{"kernel", "linux", (*test).kernel},
	{"events", "windows", (*test).events},
	{"ssh", "windows", (*test).ssh},
	{"shutdown", "windows", (*test).shutdown},
	{"network", "windows", (*test).network},
}

// Areas are the parts of the test, in their order.
func Areas() (names []string) {
	for _, a := range areas {
		names = append(names, a.name)
	}
	return names
}

// Run tests a machine. What an interrupted run left is removed first. It fails only where the machine cannot be
// described; all else is a result.
func Run(ctx context.Context, h host.Host, req Request) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	facts, err := h.Facts(ctx)
	if err != nil {
		return Report{}, err
	}
	t := &test{host: h, facts: facts, run: ctx, dir: host.Join(facts.OS, facts.DataDir, "selftest")}
	t.report = Report{Version: Version, Build: strings.TrimPrefix(facts.Build, "10.0."), Edition: facts.Product,
		Nodejoin: "(devel)", Time: time.Now().UTC().Truncate(time.Second), Results: []Result{}}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		t.report.Nodejoin = info.Main.Version
	}
	if err := t.clean(ctx); err != nil {
		return Report{}, fmt.Errorf("what an earlier self-test left cannot be removed: %w", err)
	}
	if facts.OS == "windows" {
		t.native, t.nativeWhy = t.isThisMachine(ctx)
		t.describe(ctx)
	}
	// The first look at the store of authorities can fill it.
	if ca, err := authority(); err == nil {
		_, _ = t.host.TrustedCA(ctx, ca) // the area authorities reports an error
	}
	before := t.snapshot(ctx)
	for _, a := range areas {
		if (a.os == "" || a.os == facts.OS) && (len(req.Areas) == 0 || slices.Contains(req.Areas, a.name)) {
			t.area(a.name, a.run) //nolint:contextcheck // t has it
		}
	}
	// The connection that asked may have ended; the machine is looked at all the same.
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), perUndo)
	defer stop()
	if err := t.clean(last); err != nil {
		t.report.Differs = append(t.report.Differs, err.Error())
	}
	t.report.Differs = append(t.report.Differs, differences(before, t.snapshot(last))...)
	t.report.AsBefore = len(t.report.Differs) == 0
	return t.report, ctx.Err()
}

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
