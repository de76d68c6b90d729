package compat

// addons are the versions whose flags nodejoin uses: the oldest one, why older ones are rejected, the newest
// one that was checked, and the sources.
var addons = map[string]struct {
	floor, newest line
	why, source   string
}{
	// The pipes \\.\pipe\csi-proxy-GROUP-v1, and -kubelet-path, which replaced two flags.
	CSIProxy: {line{1, 0}, line{1, 1}, "it serves beta APIs and has different flags",
		"csi-proxy v1.1.3 cmd/csi-proxy/main.go and README.md (API groups v1)"},
	// --log.file and --collector.textfile.directories; 0.18 had neither.
	WindowsExporter: {line{0, 27}, line{0, 31}, "its flags are different",
		"windows_exporter v0.18.1 and v0.27.2: exporter.go, log/flag, collector/textfile"},
}

// CheckAddon reports whether nodejoin can run a version of CSIProxy or WindowsExporter: OK (a newer version
// than the table is assumed to work), Removed (too old), NoVersion.
func CheckAddon(name, version string) Verdict {
	a := addons[name]
	v, err := Parse(version)
	if err != nil {
		return noVersion(name, version)
	}
	l := lineOf(v)
	out := Verdict{Name: name + " " + Canonical(version), Assumed: assumed(name, l, a.newest), Source: a.source}
	if l.less(a.floor) {
		out.Status, out.Why, out.Instead = Removed, a.why, a.floor.String()+" or later"
	}
	return out
}
