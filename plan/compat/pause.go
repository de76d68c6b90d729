package compat

import (
	"fmt"
	"strconv"
	"strings"
)

// pauseRow says that image tags from `from` on, up to the next row, have variants for builds.
type pauseRow struct {
	from   [3]int
	builds []int
	source string
}

const pauseChangelog = "kubernetes build/pause/CHANGELOG.md"

// pauseRows are in rising order. registry.k8s.io/pause, its predecessor k8s.gcr.io/pause, and Microsoft's
// signed copies mcr.microsoft.com/oss/kubernetes/pause have the same tags from 3.4 on; 1.x are Microsoft's
// own.
var pauseRows = []pauseRow{
	{[3]int{1, 2, 0}, []int{17763},
		"Kubernetes guide for adding Windows nodes (1.14 to 1.17): mcr.microsoft.com/k8s/core/pause:1.2.0 (not verified)"},
	{[3]int{1, 3, 0}, []int{17763, 18362, 18363},
		"kubeadm 1.18 and 1.19 constants_windows.go: 1.3.0; its builds (not verified)"},
	{[3]int{1, 4, 0}, []int{17763, 18362, 18363, 19041},
		"Kubernetes 1.20 documentation: mcr.microsoft.com/oss/kubernetes/pause:1.4.1"},
	{[3]int{3, 0, 0}, nil, pauseChangelog + ": Linux only before 3.4"},
	{[3]int{3, 4, 0}, []int{17763, 18362, 18363, 19041}, pauseChangelog + " 3.4"},
	{[3]int{3, 4, 1}, []int{17763, 18362, 18363, 19041, 19042}, pauseChangelog + " 3.4.1"},
	{[3]int{3, 6, 0}, []int{17763, 18362, 18363, 19041, 19042, 20348}, pauseChangelog + " 3.6"},
	{[3]int{3, 7, 0}, []int{17763, 19042, 20348}, pauseChangelog + " 3.7"},
	{[3]int{3, 9, 0}, []int{17763, 20348}, pauseChangelog + " 3.9"},
	{[3]int{3, 10, 2}, []int{17763, 20348, 26100}, pauseChangelog + " 3.10.2"},
}

var pauseNewest = [3]int{3, 10, 2}

// CheckPause reports whether a pause image has a variant for a Windows build: OK, Refused (it has none: pods
// stay in ContainerCreating; Instead is an image that has one), Unknown (another repository, no tag, or a
// digest).
func CheckPause(image, build string) Verdict {
	v := Verdict{Name: image}
	repo, tag, tagged := cutTag(image)
	if !tagged || repo != "pause" && !strings.HasSuffix(repo, "/pause") {
		v.Status, v.Why = Unknown, "the tables only cover images named pause, with a tag"
		return v
	}
	have, ok := tagNumbers(strings.TrimPrefix(tag, "v"))
	n, okBuild := buildNumber(build)
	if !ok || !okBuild {
		v.Status, v.Why = Unknown, fmt.Sprintf("the tag %q or the build %q cannot be read", tag, build)
		return v
	}
	var row *pauseRow
	for i := range pauseRows {
		if !lessTag(have, pauseRows[i].from) {
			row = &pauseRows[i]
		}
	}
	if row == nil {
		v.Status, v.Why = Unknown, "there is no such tag in the tables"
		return v
	}
	v.Source = row.source
	if lessTag(pauseNewest, have) {
		v.Assumed = fmt.Sprintf("pause %s is newer than the tables of this nodejoin, which treats it as 3.10.2", tag)
	}
	if newest := releases[len(releases)-1].Number; n > newest {
		v.Assumed = join(v.Assumed, fmt.Sprintf(
			"Windows build %d is newer than the tables of this nodejoin, which treats it as %d", n, newest))
		n = newest
	}
	for _, b := range row.builds {
		if b == n {
			return v
		}
	}
	v.Status, v.Why = Refused, fmt.Sprintf("%s has no variant for Windows build %d; pods would stay in ContainerCreating",
		image, n)
	for i := len(pauseRows) - 1; i >= 0; i-- { // the newest tag that has the build
		for _, b := range pauseRows[i].builds {
			if b == n {
				v.Instead = pauseImage(pauseRows, i)
				return v
			}
		}
	}
	return v
}

// pauseImage returns the image of a row: its first tag, since the table does not say which tag is the last
// before the next row.
func pauseImage(rows []pauseRow, i int) string {
	f := rows[i].from
	if f[0] < 3 {
		return fmt.Sprintf("mcr.microsoft.com/oss/kubernetes/pause:%d.%d.%d", f[0], f[1], f[2])
	}
	tag := fmt.Sprintf("%d.%d", f[0], f[1])
	if f[2] > 0 {
		tag += fmt.Sprintf(".%d", f[2])
	}
	return "registry.k8s.io/pause:" + tag
}

func lessTag(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// CheckPortForward reports whether a pause image contains the program wincat, which kubectl port-forward runs
// in it on Windows: Microsoft's images have it from 1.4.1 on (Kubernetes 1.20 documentation,
// "Troubleshooting"), and so do all others with variants for Windows (kubernetes build/pause/windows).
// Unknown for other repositories.
func CheckPortForward(image string) Verdict {
	v := Verdict{Name: image, Source: "Kubernetes 1.20 documentation, Windows troubleshooting"}
	repo, tag, tagged := cutTag(image)
	have, ok := tagNumbers(strings.TrimPrefix(tag, "v"))
	switch {
	case !tagged || !ok || repo != "pause" && !strings.HasSuffix(repo, "/pause"):
		v.Status, v.Why = Unknown, "the tables only cover images named pause, with a tag"
	case lessTag(have, [3]int{1, 4, 1}):
		v.Status, v.Why = Refused, image+" has no wincat"
		v.Instead = "mcr.microsoft.com/oss/kubernetes/pause:1.4.1"
	}
	return v
}

// PauseImage returns the default pause image of an OS and, on Windows, of a build; "" if the build is
// unknown. One tag serves every Windows in service: 3.10.2 is the first with all their builds (kubernetes
// build/pause/CHANGELOG.md) and kubeadm 1.36's default (cmd/kubeadm/app/constants/constants.go), and the
// image does not depend on the version of the kubelet. A retired build gets the newest tag that has it.
func PauseImage(os, build string) string {
	const newest = "registry.k8s.io/pause:3.10.2"
	if os != "windows" {
		return newest
	}
	if v := CheckPause(newest, build); v.Status == Refused && v.Instead != "" {
		return v.Instead
	}
	return newest
}

func cutTag(image string) (repo, tag string, ok bool) {
	i := strings.LastIndexByte(image, ':')
	if i < 0 || strings.Contains(image[i:], "/") || strings.Contains(image, "@") {
		return image, "", false
	}
	return image[:i], image[i+1:], true
}

func tagNumbers(tag string) (n [3]int, ok bool) {
	parts := strings.Split(tag, ".")
	if len(parts) > 3 {
		return n, false
	}
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil {
			return n, false
		}
		n[i] = v
	}
	return n, true
}
