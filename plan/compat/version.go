// Package compat holds what works with which version: tables as data, each row with its source, and look-ups
// over them. It decides nothing for a plan; the recipes and the compiler query it.
//
// Versions may have a leading "v". A version newer than the tables is treated as the newest known one; the
// look-ups say so in Assumed.
package compat

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Parse parses a complete version, "1.36.3" or "v1.36.3".
func Parse(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(s, "v"))
	if err != nil {
		return nil, fmt.Errorf("%q is not a version of the form 1.2.3", s)
	}
	return v, nil
}

// Canonical returns a version without a leading "v"; other text is returned unchanged.
func Canonical(s string) string {
	if v, err := Parse(s); err == nil {
		return v.String()
	}
	return s
}

// line is a version without its patch level, for example 1.36.
type line struct{ major, minor uint64 }

func lineOf(v *semver.Version) line { return line{v.Major(), v.Minor()} }

func (l line) less(m line) bool {
	return l.major < m.major || l.major == m.major && l.minor < m.minor
}

func (l line) String() string { return fmt.Sprintf("%d.%d", l.major, l.minor) }

// span is the versions from since (inclusive) to until (exclusive); the zero line means no bound.
type span struct{ since, until line }

func (s span) holds(l line) bool {
	return !l.less(s.since) && (s.until == line{} || l.less(s.until))
}

func assumed(product string, have, newest line) string {
	if !newest.less(have) {
		return ""
	}
	return fmt.Sprintf("%s %s is newer than the version tables of this nodejoin, which treats it as %s",
		product, have, newest)
}
