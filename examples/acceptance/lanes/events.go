package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
)

// event is a line of `go tool test2json`.
type event struct {
	Time    time.Time
	Action  string
	Package string   `json:",omitempty"`
	Test    string   `json:",omitempty"`
	Elapsed *float64 `json:",omitempty"` // seconds
	Output  string   `json:",omitempty"`
	// What a failed test or build refers to; passed on as it is.
	FailedBuild string `json:",omitempty"`
	OutputType  string `json:",omitempty"`
}

// events merges those of all units into what `go test -json` would print: a package begins
// once and ends once, however many processes ran its tests.
type events struct {
	mu       sync.Mutex
	to       *json.Encoder
	packages map[string]*packageState
}

type packageState struct {
	left   int // units that have not ended
	began  time.Time
	failed bool
}

func newEvents(to io.Writer, units []unit) *events {
	e := &events{to: json.NewEncoder(to), packages: map[string]*packageState{}}
	e.to.SetEscapeHTML(false)
	for _, u := range units {
		if e.packages[u.pkg] == nil {
			e.packages[u.pkg] = &packageState{}
		}
		e.packages[u.pkg].left++
	}
	return e
}

// begin says that a unit begins.
func (e *events) begin(u unit) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.packages[u.pkg]
	if !p.began.IsZero() {
		return nil
	}
	p.began = time.Now()
	return e.to.Encode(event{Time: p.began, Action: "start", Package: u.pkg})
}

// copyFrom passes on the events of a unit until its process ends, but for those of the package. passed: a test did.
//
// gotestsum runs nothing again once a line begins with "panic: ", as other tests of that process may not have run. The
// process of a unit that is one test has no others: its panic, such as the one at its limit, fails that test alone.
func (e *events) copyFrom(u unit, from io.Reader) (passed bool, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var have event
		if err := json.Unmarshal(lines.Bytes(), &have); err != nil {
			return passed, err
		}
		passed = passed || have.Test != "" && have.Action == "pass"
		if have.Test == "" && (have.Action != "output" || have.Output == "PASS\n") {
			continue
		}
		if u.test != "" && strings.HasPrefix(have.Output, "panic: ") {
			have.Output = "ended by " + have.Output
		}
		if err := e.put(have); err != nil {
			return passed, err
		}
	}
	return passed, lines.Err()
}

// say puts a line of our own into the output of a unit's package.
func (e *events) say(u unit, line string) error {
	return e.put(event{Time: time.Now(), Action: "output", Package: u.pkg, Output: line + "\n"})
}

func (e *events) put(v event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.to.Encode(v)
}

// end says that a unit has ended, and its package if it was the last.
func (e *events) end(u unit, failed bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.packages[u.pkg]
	p.left--
	p.failed = p.failed || failed
	if p.left > 0 {
		return nil
	}
	action, took := "pass", time.Since(p.began).Seconds()
	if p.failed {
		action = "fail"
	}
	return e.to.Encode(event{Time: time.Now(), Action: action, Package: u.pkg, Elapsed: &took})
}
