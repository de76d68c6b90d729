package compat

import (
	"fmt"
	"regexp"
	"strings"
)

// CheckContainerd reports whether a containerd version works with the kubelet of a Kubernetes version on
// Windows: OK (tested by containerd's maintainers, or newer than what they tested), Deprecated (it works, but
// is not among the tested ones; Instead names those), Refused (kubelet and containerd have no runtime API in
// common, or Windows is not supported).
func CheckContainerd(kubernetes, containerd string) Verdict {
	name := "containerd " + Canonical(containerd)
	l, kNote, ok := minorLine("Kubernetes", kubernetes, since1_14, kubernetesNewest)
	if !ok {
		return noVersion(name, kubernetes)
	}
	c, err := Parse(containerd)
	if err != nil {
		return noVersion(name, containerd)
	}
	cl := lineOf(c)
	v := Verdict{Name: name, Assumed: join(kNote, assumed("containerd", cl, containerdNewest)),
		Source: "containerd RELEASES.md, Kubernetes Support"}
	refuse := func(why, instead, source string) Verdict {
		v.Status, v.Why, v.Instead, v.Source = Refused, why, instead, source
		return v
	}
	switch {
	case l.less(line{1, 18}):
		return refuse("Kubernetes before 1.18 has no containerd on Windows", "docker, or a later Kubernetes",
			"Kubernetes 1.18 release notes: containerd on Windows is alpha")
	case cl.less(line{1, 4}):
		return refuse("Kubernetes on Windows needs containerd 1.4.0 or later", "containerd 1.4.0 or later",
			"Kubernetes documentation, container runtimes on Windows")
	case !l.less(line{1, 26}) && cl.less(line{1, 6}):
		return refuse("kubelet 1.26 and later speak CRI v1 only, which containerd has since 1.6",
			"containerd 1.6.15 or later", "kubernetes/kubernetes#110618")
	case l.less(line{1, 23}) && !cl.less(line{2, 0}):
		return refuse("kubelet before 1.23 speaks CRI v1alpha2 only, which containerd 2.0 removed", "containerd 1.7",
			"containerd RELEASES.md: v1alpha2 is not present in containerd v2.0")
	}
	if tested, known, want := Tested(l.String()+".0", Canonical(containerd)); known && !tested {
		v.Status, v.Instead = Deprecated, "containerd "+strings.Join(want, ", ")+" or a later patch"
		v.Why = fmt.Sprintf("containerd's maintainers do not test it with Kubernetes %s", l)
	}
	return v
}

// CheckDocker reports whether the kubelet of a version supports Docker Engine by itself, through dockershim.
func CheckDocker(kubernetes string) Verdict {
	v := Verdict{Name: "docker", Until: "1.24", Source: "kubernetes/kubernetes#106907, CHANGELOG-1.24"}
	l, note, ok := minorLine("Kubernetes", kubernetes, since1_14, kubernetesNewest)
	if !ok {
		return noVersion(v.Name, kubernetes)
	}
	v.Assumed = note
	switch {
	case !l.less(line{1, 24}):
		v.Status, v.Instead = Removed, `runtime "containerd"`
		v.Why = "the kubelet has no dockershim since 1.24"
	case !l.less(line{1, 20}):
		v.Status, v.Instead = Deprecated, `runtime "containerd"`
		v.Why = "dockershim is deprecated since 1.20 and removed in 1.24"
		v.Source = "CHANGELOG-1.20; kubernetes/kubernetes#106907"
	}
	return v
}

// ParseDocker parses a version of Docker Engine or MCR, "20.10.24" or "19.03.5"; the latter is not a semantic
// version. A leading "v" is removed.
func ParseDocker(version string) (string, error) {
	text := strings.TrimPrefix(version, "v")
	if !dockerVersion.MatchString(text) {
		return "", fmt.Errorf("%q is not a version of the form 1.2.3", version)
	}
	return text, nil
}

var dockerVersion = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$`)

// CheckDockerVersion reports whether a Docker Engine or MCR works with a kubelet on Windows.
func CheckDockerVersion(version string) Verdict {
	v := Verdict{Name: "docker " + version, Since: "19.03",
		Source: "Kubernetes documentation, container runtimes on Windows: Docker EE 19.03 and later"}
	text, err := ParseDocker(version)
	if err != nil {
		return noVersion(v.Name, version)
	}
	parts := strings.Split(text, ".")
	l, err := parseLine(parts[0] + "." + parts[1])
	if err != nil {
		return noVersion(v.Name, version)
	}
	if l.less(line{19, 3}) {
		v.Status, v.Why, v.Instead = Refused,
			fmt.Sprintf("docker %s is older than 19.03, the oldest that works with Kubernetes on Windows", text), "a newer one"
	}
	return v
}
