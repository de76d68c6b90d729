package compat

import "github.com/Masterminds/semver/v3"

// Containerd describes one version of containerd.
type Containerd struct {
	// Supported: it works with some kubelet on Windows (1.4.0; Kubernetes documentation, container runtimes on
	// Windows). CheckContainerd says which.
	Supported bool
	// CRIv1: it serves CRI v1 (containerd 1.6; RELEASES.md).
	CRIv1 bool
	// CRIv1alpha2: it serves CRI v1alpha2, which 2.0 removed (RELEASES.md).
	CRIv1alpha2 bool
	// ConfigPath: the CRI plugin reads hosts.toml files below registry.config_path (containerd v1.5.18
	// pkg/cri/config/config.go; absent in 1.4, whose mirrors are in config.toml).
	ConfigPath bool
	// HeaderForTokens: a header of hosts.toml is also sent to the server that gives tokens for the registry, so that an
	// Authorization header there is a login at any registry (containerd/containerd#11092; v2.1.2
	// core/remotes/docker/config/hosts.go, absent in v1.7.35). Before, it is one only at registries that ask for a
	// password themselves.
	HeaderForTokens bool
	Assumed         string // as in Kubernetes
	// Schema is the newest `version` of config.toml that it reads; it migrates older ones at every start.
	Schema int
	// BinDirs: the CNI section takes the list bin_dirs instead of bin_dir (containerd 2.1 release notes).
	// bin_dir is read up to 2.3 and removed in 2.4 (containerd v2.3.0 and v2.4.0 internal/cri/config/config.go).
	BinDirs bool
}

var (
	containerdFloor  = line{1, 4}
	containerdNewest = line{2, 4}
)

// LookupContainerd looks up a version of containerd.
func LookupContainerd(version string) (Containerd, error) {
	v, err := Parse(version)
	if err != nil {
		return Containerd{}, err
	}
	l := lineOf(v)
	c := Containerd{Supported: !l.less(containerdFloor), Schema: containerdSchema(l),
		Assumed: assumed("containerd", l, containerdNewest)}
	c.CRIv1 = !l.less(line{1, 6})
	c.CRIv1alpha2 = l.less(line{2, 0})
	c.ConfigPath = !l.less(line{1, 5})
	c.HeaderForTokens = !l.less(line{2, 1})
	c.BinDirs = !l.less(line{2, 1})
	return c, nil
}

// RuntimeAPI returns the CRI version that a kubelet and a containerd use, "v1" or "v1alpha2"; "" if they have
// none in common. The kubelet prefers v1 (kubernetes v1.23.17 pkg/kubelet/cri/remote/remote_runtime.go,
// determineAPIVersion).
func RuntimeAPI(k Kubernetes, c Containerd) string {
	switch {
	case k.CRIv1 && c.CRIv1:
		return "v1"
	case k.CRIv1alpha2 && c.CRIv1alpha2:
		return "v1alpha2"
	}
	return ""
}

// containerdTested: the lowest versions of each branch that containerd's own
// RELEASES.md (section "Kubernetes Support") names for a Kubernetes version.
// A branch that is newer than all of a row counts as tested.
// The rows of 1.24 to 1.31 are from earlier editions of that file
// (containerd/containerd.io#213, containerd v2.1.2), 1.37 from that of v2.4.2.
var containerdTested = map[line][]string{
	{1, 24}: {"1.6.4", "1.7.0"},
	{1, 25}: {"1.6.4", "1.7.0"},
	{1, 26}: {"1.6.15", "1.7.0"},
	{1, 27}: {"1.6.15", "1.7.0"},
	{1, 28}: {"1.6.15", "1.7.0"},
	{1, 29}: {"1.6.27", "1.7.11"},
	{1, 30}: {"1.6.28", "1.7.13", "2.0.0", "2.1.0"},
	{1, 31}: {"1.6.34", "1.7.20", "2.0.0", "2.1.0"},
	{1, 32}: {"1.6.36", "1.7.24", "2.0.1", "2.1.0"},
	{1, 33}: {"1.6.36", "1.7.24", "2.0.4", "2.1.0"},
	{1, 34}: {"1.6.39", "1.7.28", "2.0.6", "2.1.3"},
	{1, 35}: {"1.7.28", "2.1.5", "2.2.0"},
	{1, 36}: {"2.2.0", "2.3.0"},
	{1, 37}: {"2.3.0", "2.4.0"},
}

// Tested reports whether containerd's maintainers test this pair; known is false if there is no row for the
// Kubernetes version. want names the lowest tested versions.
func Tested(kubernetes, containerd string) (ok, known bool, want []string) {
	k, kerr := Parse(kubernetes)
	c, cerr := Parse(containerd)
	if kerr != nil || cerr != nil {
		return false, false, nil
	}
	want, known = containerdTested[lineOf(k)]
	if !known {
		return false, false, nil
	}
	for _, w := range want {
		lowest := semver.MustParse(w)
		if lineOf(lowest) == lineOf(c) && !c.LessThan(lowest) {
			return true, true, want
		}
	}
	last := semver.MustParse(want[len(want)-1])
	return lineOf(last).less(lineOf(c)), true, want
}

// containerdSchema returns the schema of config.toml that `containerd config default` writes. A version migrates
// older schemas at every start.
//
// Sources: containerd 1.x docs/ops.md; version/version.go of v2.0.0, v2.1.2 and v2.2.1 (ConfigVersion = 3), of v2.3.0
// and v2.4.2 (ConfigVersion = 4); docs/man/containerd-config.toml.5.md: schema 4 moves [grpc], [ttrpc], [debug] and
// [metrics] to plugins io.containerd.server.v1.*.
func containerdSchema(l line) int {
	switch {
	case l.less(line{2, 0}):
		return 2
	case l.less(line{2, 3}):
		return 3
	}
	return 4
}
