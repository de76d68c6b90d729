package selftest

import (
	"slices"
	"strings"
	"time"
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
