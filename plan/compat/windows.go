package compat

import (
	"strconv"
	"strings"
)

// Build is a Windows build that can be a node.
type Build struct {
	Number  int // third part of 10.0.N
	Product string
	LTSC    bool
	// Pause is the lowest tag of registry.k8s.io/pause with an image for the build
	// (kubernetes build/pause/CHANGELOG.md).
	Pause string
}

// builds in rising order. Builds of retired semi-annual channels
// (18362, 18363, 19041, 19042; retired 2022-08-09) are not in it.
var builds = []Build{
	{17763, "Windows Server 2019", true, "3.6"},    // in every matrix since Kubernetes 1.14; pause 3.10.2 still has it
	{20348, "Windows Server 2022", true, "3.6"},    // pause CHANGELOG 3.6
	{26100, "Windows Server 2025", true, "3.10.2"}, // pause CHANGELOG 3.10.2
}

// LookupBuild finds "10.0.20348" (a fourth part is ignored) in the table.
func LookupBuild(build string) (Build, bool) {
	n, ok := buildNumber(build)
	if !ok {
		return Build{}, false
	}
	for _, b := range builds {
		if b.Number == n {
			return b, true
		}
	}
	return Build{}, false
}

// Builds lists the known builds, oldest first.
func Builds() []Build { return append([]Build(nil), builds...) }

// MinBuild is the lowest supported Windows build, "10.0.17763".
func MinBuild() string { return "10.0." + strconv.Itoa(builds[0].Number) }

// ValidBuild tells whether s has the form 10.0.N or 10.0.N.M.
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

// PauseImage is the default sandbox image of an OS and, on Windows, of a build; ""
// where the build is not known. One tag serves every Windows in service: 3.10.2 is
// the first that has all their builds (kubernetes build/pause/CHANGELOG.md), it is
// kubeadm 1.36's default (cmd/kubeadm/app/constants/constants.go), and the image has
// no dependency on the version of the kubelet. A retired build gets the newest tag
// that has it.
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

// PauseRunsOn tells whether a pause image has a variant for a Windows build;
// known is false for images and builds that the table does not name.
func PauseRunsOn(image, build string) (ok, known bool, lowest string) {
	b, found := LookupBuild(build)
	repo, tag, tagged := cutTag(image)
	if !found || !tagged || !strings.HasSuffix(repo, "/pause") {
		return false, false, ""
	}
	have, ok1 := tagNumbers(tag)
	want, _ := tagNumbers(b.Pause)
	if !ok1 || have[0] != 3 {
		return false, false, ""
	}
	for i := range want {
		if have[i] != want[i] {
			return have[i] > want[i], true, b.Pause
		}
	}
	return true, true, b.Pause
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
