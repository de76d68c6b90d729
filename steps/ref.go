package steps

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nodejoin/steps/host"
)

// A reference is a hole in a string argument for a value that is known only
// later: a fact of the host or an output of an earlier step. It is written
// between two NUL characters, which no file, path or command line can hold, so it
// survives JSON and templates and cannot be mistaken for text.

// Ref is a reference to an output of a step ("registered.pod_cidr"), a fact of
// the host ("fact.management_ip") or of the cluster ("cluster.ca").
func Ref(name string) string { return "\x00" + name + "\x00" }

var refPattern = regexp.MustCompile("\x00([^\x00]*)\x00")

// Refs names the references in s, in order, each once.
func Refs(s string) []string {
	var out []string
	for _, m := range refPattern.FindAllStringSubmatch(s, -1) {
		if !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}

// HasRef reports whether s holds a reference.
func HasRef(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// Resolve fills the references of s that values knows and leaves the others.
func Resolve(s string, values map[string]string) string {
	if !HasRef(s) {
		return s
	}
	return refPattern.ReplaceAllStringFunc(s, func(m string) string {
		if v, ok := values[m[1:len(m)-1]]; ok {
			return v
		}
		return m
	})
}

// ShowRefs writes references for people: "(known after registered)".
func ShowRefs(s string) string {
	if !HasRef(s) {
		return s
	}
	return refPattern.ReplaceAllStringFunc(s, func(m string) string {
		step, _, _ := strings.Cut(m[1:len(m)-1], ".")
		switch step {
		case "fact":
			return "(known after connecting)"
		case "reached":
			return "(known by the plan or the connection)"
		case "cluster":
			return "(known after reaching the cluster)"
		}
		return "(known after " + step + ")"
	})
}

// MapStrings replaces each string in decoded JSON by f of it, in place where it can, in a fixed order.
func MapStrings(v any, f func(string) string) any {
	switch t := v.(type) {
	case string:
		return f(t)
	case []any:
		for i := range t {
			t[i] = MapStrings(t[i], f)
		}
	case map[string]any:
		keys := make([]string, 0, len(t))
		for k := range t {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			t[k] = MapStrings(t[k], f)
		}
	}
	return v
}

// FactValues are the references that a host's facts fill.
func FactValues(f host.Facts) map[string]string {
	return map[string]string{
		"fact.management_ip": f.ManagementIP, "fact.hostname": f.Hostname, "fact.build": f.Build,
		"fact.subnet": f.Subnet, "fact.interface": f.Interface, "fact.data_dir": f.DataDir, "fact.arch": f.Arch,
		"fact.cgroup_driver": cgroupDriver(f), "fact.systemd_cgroup": strconv.FormatBool(f.Init == "systemd"),
		"fact.resolv_conf": f.ResolvConf,
	}
}

// cgroupDriver is how kubelet and runtime share control groups: through systemd where
// it runs, as it takes itself for their only owner (kubernetes.io, "Container Runtimes").
func cgroupDriver(f host.Facts) string {
	if f.Init == "systemd" {
		return "systemd"
	}
	return "cgroupfs"
}
