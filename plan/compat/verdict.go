package compat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
)

// Status is the result of a check in a word.
type Status int

const (
	OK         Status = iota // it exists and works
	Deprecated               // it still works, and is announced to go away
	Removed                  // it existed; the program rejects it, or nothing uses it any more
	NotYet                   // a later version adds it
	Refused                  // it exists, and the value or the combination is rejected
	Unknown                  // no version in the tables has it
	NoVersion                // a version is invalid, so nothing is known
)

// Verdict answers whether one thing is possible. The questions and their look-ups:
//
//	a flag, a configuration field, a feature gate    CheckFlag, CheckField, CheckGate
//	Kubernetes and a build of Windows                CheckWindows
//	Kubernetes and its runtime                       CheckContainerd, CheckDocker, CheckDockerVersion
//	sandbox image and a build of Windows             CheckPause
//	network features and defects of a build          CheckWindowsFeature, KnownIssues
//	version skew                                     CheckSkew
//	objects in the cluster                           CheckRuntimeClass, CheckLabel
//
// Text in it is meant for a diagnostic: Why is a sentence without a
// full stop, Instead is what to write or do in its place.
type Verdict struct {
	Status Status
	Name   string // what was asked for, in its own form: "--network-plugin", "clusterDNS"
	Since  string // first version that has it, "1.27"; "" when older than the tables
	Until  string // first version without it; "" when it is still there
	Why    string // "" for OK
	// Instead is the right form, or the similar name that was probably meant; "" if there is none.
	Instead string
	// Assumed is not empty if a version is outside the tables: one sentence that says what was assumed.
	Assumed string
	// Source is where the row comes from; it ends in "(not verified)" if no primary source confirmed it.
	Source string
}

// Accepted reports whether the programs accept it: it is OK or Deprecated.
func (v Verdict) Accepted() bool { return v.Status == OK || v.Status == Deprecated }

// minorLine parses "1.27.16", "v1.27.16" or "1.27". The note says what is assumed if the version is outside
// the tables, which cover oldest to newest; the line is then the nearest one that they have.
func minorLine(product, version string, oldest, newest line) (l line, note string, ok bool) {
	if v, err := Parse(version); err == nil {
		l = lineOf(v)
	} else {
		major, minor, cut := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		a, aErr := strconv.ParseUint(major, 10, 32)
		b, bErr := strconv.ParseUint(minor, 10, 32)
		if !cut || aErr != nil || bErr != nil {
			return line{}, "", false
		}
		l = line{a, b}
	}
	if l.less(oldest) {
		return oldest, fmt.Sprintf("%s %s is older than the version tables of this nodejoin, which treats it as %s", product,
			l, oldest), true
	}
	if note = assumed(product, l, newest); note != "" {
		l = newest
	}
	return l, note, true
}

func noVersion(name, version string) Verdict {
	return Verdict{Status: NoVersion, Name: name, Why: fmt.Sprintf("%q is not a version of the form 1.2.3", version)}
}

// since1_14 is how the files in data write the first version.
var since1_14 = line{1, 14}

// parseLine parses "1.27" of the tables; "-" and "" are no bound.
func parseLine(s string) (line, error) {
	if s == "-" || s == "" {
		return line{}, nil
	}
	major, minor, _ := strings.Cut(s, ".")
	a, aErr := strconv.ParseUint(major, 10, 32)
	b, bErr := strconv.ParseUint(minor, 10, 32)
	if aErr != nil || bErr != nil {
		return line{}, fmt.Errorf("%q is not a minor version", s)
	}
	return line{a, b}, nil
}

func (l line) text() string {
	if l == (line{}) {
		return ""
	}
	return l.String()
}

// nearest returns the name that have was probably meant to be, or "". Of equally near ones it is the first.
func nearest(have string, names []string) string {
	const longest = 64 // nothing in the tables is longer; limits the cost of a hostile name
	if have == "" || len(have) > longest {
		return ""
	}
	have = strings.ToLower(have)
	best, bestDistance := "", 1+max(1, len(have)/5)
	for _, name := range names {
		if d := levenshtein.Distance(have, strings.ToLower(name), nil); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// dataRows yields the fields of each row of an embedded table, without comments.
func dataRows(text string) [][]string {
	var rows [][]string
	for _, l := range strings.Split(text, "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		rows = append(rows, strings.Split(l, " | "))
	}
	return rows
}
