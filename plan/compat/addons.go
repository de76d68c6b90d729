package compat

// addons are the lines of their versions whose flags nodejoin gives: the oldest one,
// why older ones are refused, the newest one that was looked at, and the sources.
var addons = map[string]struct {
	floor, newest line
	why, source   string
}{
	// The pipes \\.\pipe\csi-proxy-GROUP-v1, and -kubelet-path in place of the two flags before it.
	CSIProxy: {line{1, 0}, line{1, 1}, "it serves beta APIs and takes other flags", "csi-proxy v1.1.3 cmd/csi-proxy/main.go and README.md (API groups v1)"},
	// --log.file and --collector.textfile.directories; 0.18 had neither.
	WindowsExporter: {line{0, 27}, line{0, 31}, "its flags are others", "windows_exporter v0.18.1 and v0.27.2: exporter.go, log/flag, collector/textfile"},
}

// CheckAddon tells whether nodejoin can run a version of CSIProxy or WindowsExporter:
// OK (newer than the table is assumed to be), Removed (too old), NoVersion.
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
