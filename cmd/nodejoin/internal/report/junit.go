package report

import (
	"encoding/xml"
	"fmt"
	"os"
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
	"nodejoin/steps/verify"
)

// Case is one test of a JUnit report.
type Case struct {
	Class, Name string
	Took        time.Duration
	Failure     string // "" = it passed
	Skipped     string // why it was not run; "" = it was
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

// WriteJUnit writes cases as a JUnit file, which CI systems show as tests. An empty file name writes nothing.
func WriteJUnit(file, suite string, cases []Case) error {
	if file == "" {
		return nil
	}
	exact := func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
	s := junitSuite{Name: suite, Tests: len(cases)}
	var all time.Duration
	for _, c := range cases {
		all += c.Took
		j := junitCase{Class: c.Class, Name: c.Name, Time: exact(c.Took)}
		switch {
		case c.Failure != "":
			s.Failures++
			j.Failure = &junitMessage{ui.Clean(c.Failure)}
		case c.Skipped != "":
			s.Skipped++
			j.Skipped = &junitMessage{ui.Clean(c.Skipped)}
		}
		s.Cases = append(s.Cases, j)
	}
	s.Time = exact(all)
	text, err := xml.MarshalIndent(struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []junitSuite
	}{Suites: []junitSuite{s}}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(xml.Header), append(text, '\n')...), 0o600)
}

// AppliedCases are the hosts of an apply; sum is nil where there was nothing to do.
func AppliedCases(r *engine.Report, sum *engine.Summary) (out []Case) {
	if sum == nil {
		for _, h := range r.Hosts {
			c := Case{Class: "apply", Name: h.Node.Name}
			if h.Err != nil {
				c.Failure = h.Err.Error()
			}
			out = append(out, c)
		}
		return out
	}
	for _, h := range sum.Hosts {
		c := Case{Class: "apply", Name: h.Node, Skipped: h.Held}
		if h.Err != nil {
			c.Failure = h.Err.Error()
			if h.Failed != "" {
				c.Failure = "step " + h.Failed + ": " + c.Failure
			}
		}
		out = append(out, c)
	}
	return out
}

// VerifiedCases are the tests of verify: one for each node and way.
func VerifiedCases(r *verify.Report, err error) (out []Case) {
	for _, f := range r.Results {
		c := Case{Class: f.Node, Name: f.Flow, Took: f.Took}
		switch f.Status {
		case verify.Fail:
			c.Failure = f.Detail
			if c.Failure == "" {
				c.Failure = "failed"
			}
		case verify.NotPossible:
			c.Skipped = f.Detail
		}
		out = append(out, c)
	}
	if err != nil {
		out = append(out, Case{Class: "verify", Name: "cluster", Failure: err.Error()})
	}
	return out
}
