package compat

import (
	"fmt"
	"strconv"
	"strings"
)

// Channel is how Microsoft services a Windows release.
type Channel string

const (
	LTSC       Channel = "LTSC" // long-term servicing
	SemiAnnual Channel = "SAC"  // retired as a whole on 2022-08-09
	Annual     Channel = "AC"   // since 23H2
)

// Release is a release of Windows Server, identified by its build. Retired releases are in the table, so that
// a plan that names one gets an explanation.
type Release struct {
	Number  int    // third part of 10.0.N
	Name    string // "Windows Server 2022", "Windows Server, version 1909"
	Channel Channel
	Retired string // date of its end of service; "" while in service
	// Kubernetes versions whose documentation or images include it; until is exclusive.
	kubernetes span
	source     string
}

// The end-of-service dates are from Microsoft's lifecycle pages (not verified here, except for the retirement
// of the semi-annual channel).
var releases = []Release{
	{17763, "Windows Server 2019", LTSC, "", span{since: line{1, 14}},
		"Kubernetes documentation, Windows OS version support 1.14 to 1.27; build/pause/CHANGELOG.md"},
	{18362, "Windows Server, version 1903", SemiAnnual, "2020-12-08", span{since: line{1, 15}, until: line{1, 19}},
		"Kubernetes 1.18 documentation, Windows OS version support; its first version (not verified)"},
	{18363, "Windows Server, version 1909", SemiAnnual, "2021-05-11", span{since: line{1, 18}, until: line{1, 21}},
		"Kubernetes 1.18 to 1.20 documentation, Windows OS version support; its last version (not verified)"},
	{19041, "Windows Server, version 2004", SemiAnnual, "2021-12-14", span{since: line{1, 19}, until: line{1, 23}},
		"Kubernetes 1.19 and 1.20 documentation; build/pause/CHANGELOG.md 3.7; its last version (not verified)"},
	{19042, "Windows Server, version 20H2", SemiAnnual, "2022-08-09", span{since: line{1, 21}, until: line{1, 28}},
		"Kubernetes 1.27 documentation lists it; build/pause/CHANGELOG.md 3.4.1 to 3.8; its first version (not verified)"},
	{20348, "Windows Server 2022", LTSC, "", span{since: line{1, 23}},
		"build/pause/CHANGELOG.md 3.6, which is kubeadm 1.23's default; Kubernetes 1.27 documentation"},
	{25398, "Windows Server, version 23H2", Annual, "2025-10-24", span{},
		"not in the documentation or the pause image (not verified)"},
	{26100, "Windows Server 2025", LTSC, "", span{since: line{1, 33}},
		"test images and distributions since 1.33; build/pause/CHANGELOG.md 3.10.2; the documentation's wording (not " +
			"verified)"},
}

// WindowsRelease looks up the release of a build, "10.0.20348" or "10.0.20348.1607". For a build above the
// newest known one it returns that one, and assumed says so; for a build between the known ones, or text that
// is not a build, ok is false.
func WindowsRelease(build string) (r Release, assumed string, ok bool) {
	n, valid := buildNumber(build)
	if !valid {
		return Release{}, "", false
	}
	for _, r := range releases {
		if r.Number == n {
			return r, "", true
		}
	}
	if newest := releases[len(releases)-1]; n > newest.Number {
		return newest, fmt.Sprintf("Windows build %d is newer than the tables of this nodejoin, which treats it as %s (%d)",
			n, newest.Name, newest.Number), true
	}
	return Release{}, "", false
}

// CheckWindows reports whether a Windows build can be a node of a Kubernetes version: OK, NotYet, Removed
// (Kubernetes dropped the release), Deprecated (this version supports it, but Microsoft has retired it
// since), Unknown. This reflects documentation and tests; no program enforces it.
func CheckWindows(kubernetes, build string) Verdict {
	l, note, ok := minorLine("Kubernetes", kubernetes, since1_14, kubernetesNewest)
	if !ok {
		return noVersion(build, kubernetes)
	}
	r, newer, ok := WindowsRelease(build)
	v := Verdict{Name: build, Assumed: join(note, newer), Source: r.source}
	if !ok {
		v.Status, v.Source = Unknown, "table of Windows releases"
		v.Why = fmt.Sprintf("%q is not a known Windows Server build; write it like 10.0.20348", build)
		v.Instead = nearBuild(build)
		return v
	}
	v.Name, v.Since, v.Until = r.Name, r.kubernetes.since.text(), r.kubernetes.until.text()
	const current = "Windows Server 2019, 2022 or 2025"
	switch {
	case r.kubernetes == (span{}):
		v.Status, v.Instead = Unknown, current
		v.Why = fmt.Sprintf("no Kubernetes version supports %s as a node, and the pause image has no variant for it", r.Name)
	case l.less(r.kubernetes.since):
		v.Status, v.Why = NotYet, fmt.Sprintf("%s can be a node since Kubernetes %s", r.Name, r.kubernetes.since)
	case !r.kubernetes.holds(l):
		v.Status, v.Instead = Removed, current
		v.Why = fmt.Sprintf("%s can be a node until Kubernetes %s; Microsoft ended its service on %s", r.Name,
			previous(r.kubernetes.until), r.Retired)
	case r.Retired != "":
		v.Status, v.Instead = Deprecated, current
		v.Why = fmt.Sprintf("Microsoft ended the service of %s on %s", r.Name, r.Retired)
	}
	return v
}

// MinBuild is the lowest supported Windows build, "10.0.17763".
func MinBuild() string { return "10.0." + strconv.Itoa(releases[0].Number) }

// ValidBuild reports whether s has the form 10.0.N or 10.0.N.M.
func ValidBuild(s string) bool {
	_, ok := buildNumber(s)
	return ok
}

func buildNumber(s string) (int, bool) {
	parts := strings.Split(s, ".")
	if len(parts) < 3 || len(parts) > 4 || parts[0] != "10" || parts[1] != "0" {
		return 0, false
	}
	for _, p := range parts[2:] {
		if n, err := strconv.Atoi(p); err != nil || n < 0 {
			return 0, false
		}
	}
	n, _ := strconv.Atoi(parts[2])
	return n, true
}

func previous(l line) line {
	if l.minor > 0 {
		l.minor--
	}
	return l
}

func join(notes ...string) string {
	var have []string
	for _, n := range notes {
		if n != "" {
			have = append(have, n)
		}
	}
	return strings.Join(have, "; ")
}

// nearBuild suggests the form 10.0.N for a bare build number or a product name.
func nearBuild(s string) string {
	for _, r := range releases {
		n := strconv.Itoa(r.Number)
		year := r.Name[strings.LastIndexByte(r.Name, ' ')+1:]
		if s == n || strings.EqualFold(s, r.Name) || s == year || strings.EqualFold(s, "windows-"+year) ||
			strings.EqualFold(s, "ltsc"+year) {
			return "10.0." + n
		}
	}
	return ""
}

// buildAndRevision parses 10.0.N.R; revision is -1 if it is not given.
func buildAndRevision(s string) (number, revision int, ok bool) {
	number, ok = buildNumber(s)
	revision = -1
	if parts := strings.Split(s, "."); ok && len(parts) == 4 {
		revision, _ = strconv.Atoi(parts[3])
	}
	return number, revision, ok
}
