package compat

import (
	"strconv"
	"strings"
)

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
