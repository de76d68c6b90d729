package compat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
)

// Status is the short answer of a check.
type Status int

const (
	OK         Status = iota // it exists and works
	Deprecated               // it works still, and says that it will go
	Removed                  // it existed; the program refuses it, or nothing acts on it any more
	NotYet                   // it comes with a later version
	Refused                  // it exists, and the value or the combination is refused
	Unknown                  // the tables have no such thing in any version
	NoVersion                // a version could not be read, so that nothing is known
)

func (s Status) String() string {
	return [...]string{"ok", "deprecated", "removed", "not yet", "refused", "unknown", "no version"}[s]
}

// Verdict answers whether one thing is possible. The questions and their look-ups:
//
//	a flag, a configuration field, a feature gate    CheckFlag, CheckField, CheckGate
//	Kubernetes and a build of Windows                CheckWindows
//	Kubernetes and its runtime                       CheckContainerd, CheckDocker, CheckDockerVersion
//	schema of containerd's configuration             CheckContainerdSchema, ContainerdSchemas
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
	// Instead is the right form, or the near name that was probably meant; "" when there is none.
	Instead string
	// Assumed is not empty when a version is outside the tables: one sentence that says what was assumed.
	Assumed string
	// Source is where the row comes from; it ends in "(not verified)" when nothing first-hand confirmed it.
	Source string
}

// Accepted tells whether the programs take it: it is OK or Deprecated.
func (v Verdict) Accepted() bool { return v.Status == OK || v.Status == Deprecated }

// Verified tells whether the row was confirmed first-hand. What rests on one that
// was not is better a warning than an error.
func (v Verdict) Verified() bool { return !strings.HasSuffix(v.Source, "(not verified)") }

// minorLine reads "1.27.16", "v1.27.16" or "1.27". The note says what is assumed
// when the version is outside the tables, which cover oldest to newest; the line
// is then the nearest one that they have.
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
		return oldest, fmt.Sprintf("%s %s is older than the version tables of this nodejoin; what holds for %s is assumed", product, l, oldest), true
	}
	if note = assumed(product, l, newest); note != "" {
		l = newest
	}
	return l, note, true
}

func noVersion(name, version string) Verdict {
	return Verdict{Status: NoVersion, Name: name, Why: fmt.Sprintf("%q is no version of the form 1.2.3", version)}
}

// since1_14 is what the files in data start with.
var since1_14 = line{1, 14}

// parseLine reads "1.27" of the tables; "-" and "" are no bound.
func parseLine(s string) (line, error) {
	if s == "-" || s == "" {
		return line{}, nil
	}
	major, minor, _ := strings.Cut(s, ".")
	a, aErr := strconv.ParseUint(major, 10, 32)
	b, bErr := strconv.ParseUint(minor, 10, 32)
	if aErr != nil || bErr != nil {
		return line{}, fmt.Errorf("%q is no minor version", s)
	}
	return line{a, b}, nil
}

func (l line) text() string {
	if l == (line{}) {
		return ""
	}
	return l.String()
}

// nearest is the name that have was probably meant to be, or "". Of equally near
// ones it is the first.
func nearest(have string, names []string) string {
	const longest = 64 // nothing in the tables is longer; keeps a hostile name cheap
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

// dataRows yields the fields of each row of an embedded table, comments left out.
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
