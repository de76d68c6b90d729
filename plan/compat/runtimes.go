package compat

import (
	"fmt"
	"regexp"
	"strings"
)

// ContainerdConfig says which schemas of config.toml a version of containerd reads.
type ContainerdConfig struct {
	Newest  int // what `containerd config default` writes, and nodejoin
	Oldest  int // older ones are migrated from here on, at every start
	Assumed string
	Source  string
}

// ContainerdSchemas looks up the configuration schemas of a containerd version.
func ContainerdSchemas(version string) (ContainerdConfig, error) {
	v, err := Parse(version)
	if err != nil {
		return ContainerdConfig{}, err
	}
	return schemasOf(lineOf(v)), nil
}

func schemasOf(l line) ContainerdConfig {
	c := ContainerdConfig{Assumed: assumed("containerd", l, containerdNewest)}
	switch {
	case l.less(line{2, 0}):
		c.Newest, c.Oldest = 2, 1
		c.Source = "containerd 1.x docs/ops.md; schema 1 is read up to 1.7 (not verified)"
	case l.less(line{2, 3}):
		c.Newest, c.Oldest = 3, 2
		c.Source = "containerd v2.0.0, v2.1.2 and v2.2.1 version/version.go: ConfigVersion = 3"
	default:
		c.Newest, c.Oldest = 4, 2
		c.Source = "containerd v2.3.0 and v2.4.2 version/version.go: ConfigVersion = 4, docs/man/containerd-config.toml.5.md: older ones are migrated on startup; [grpc], [ttrpc], [debug] and [metrics] moved to plugins io.containerd.server.v1.* in schema 4"
	}
	return c
}

// CheckContainerdSchema tells whether a containerd version reads a schema of
// config.toml: OK, Deprecated (it migrates it at every start), NotYet, Removed.
func CheckContainerdSchema(version string, schema int) Verdict {
	name := fmt.Sprintf("version = %d", schema)
	c, err := ContainerdSchemas(version)
	if err != nil {
		return noVersion(name, version)
	}
	v := Verdict{Name: name, Assumed: c.Assumed, Source: c.Source}
	right := fmt.Sprintf("version = %d", c.Newest)
	switch {
	case schema < 1:
		v.Status, v.Why, v.Instead = Unknown, "there is no such schema", right
	case schema < c.Oldest:
		v.Status, v.Why, v.Instead = Removed, fmt.Sprintf("containerd %s reads schemas %d to %d", Canonical(version), c.Oldest, c.Newest), right
	case schema > c.Newest:
		v.Status, v.Why, v.Instead = NotYet, fmt.Sprintf("containerd %s reads schemas up to %d", Canonical(version), c.Newest), right
	case schema < c.Newest:
		v.Status, v.Why, v.Instead = Deprecated, "containerd migrates it at every start", right
	}
	return v
}

// CheckContainerd tells whether a containerd version serves the kubelet of a
// Kubernetes version on Windows: OK (tested by containerd's maintainers, or
// newer than what they tested), Deprecated (it works, but is not among the
// tested ones; Instead names those), Refused (kubelet and containerd have no
// runtime API in common, or Windows is not supported).
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
		return refuse("Kubernetes before 1.18 has no containerd on Windows", "docker, or a later Kubernetes", "Kubernetes 1.18 release notes: containerd on Windows is alpha")
	case cl.less(line{1, 4}):
		return refuse("Kubernetes on Windows needs containerd 1.4.0 or later", "containerd 1.4.0 or later", "Kubernetes documentation, container runtimes on Windows")
	case !l.less(line{1, 26}) && cl.less(line{1, 6}):
		return refuse("kubelet 1.26 and later speak CRI v1 only, which containerd has since 1.6", "containerd 1.6.15 or later", "kubernetes/kubernetes#110618")
	case l.less(line{1, 23}) && !cl.less(line{2, 0}):
		return refuse("kubelet before 1.23 speaks CRI v1alpha2 only, which containerd 2.0 removed", "containerd 1.7", "containerd RELEASES.md: v1alpha2 is not present in containerd v2.0")
	}
	if tested, known, want := Tested(l.String()+".0", Canonical(containerd)); known && !tested {
		v.Status, v.Instead = Deprecated, "containerd "+strings.Join(want, ", ")+" or a later patch"
		v.Why = fmt.Sprintf("containerd's maintainers do not test it with Kubernetes %s", l)
	}
	return v
}

// CheckDocker tells whether the kubelet of a version can use Docker Engine by
// itself, through dockershim.
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

// ParseDocker reads a version of Docker Engine or MCR, "20.10.24" or "19.03.5"; the
// latter is no semantic version. A leading "v" is taken off.
func ParseDocker(version string) (string, error) {
	text := strings.TrimPrefix(version, "v")
	if !dockerVersion.MatchString(text) {
		return "", fmt.Errorf("%q is no version of the form 1.2.3", version)
	}
	return text, nil
}

var dockerVersion = regexp.MustCompile(`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$`)

// CheckDockerVersion tells whether a Docker Engine or MCR can serve a kubelet on Windows.
func CheckDockerVersion(version string) Verdict {
	v := Verdict{Name: "docker " + version, Since: "19.03", Source: "Kubernetes documentation, container runtimes on Windows: Docker EE 19.03 and later"}
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
		v.Status, v.Why, v.Instead = Refused, fmt.Sprintf("docker %s is older than 19.03, the oldest that Kubernetes on Windows works with", text), "a newer one"
	}
	return v
}
