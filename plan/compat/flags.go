package compat

import (
	"fmt"
	"strings"
)

// CheckFlag reports whether the Windows build of a program (KubeletProgram or KubeProxyProgram) has a flag in
// a Kubernetes version. The flag may have its dashes and a value, "--cluster-dns=10.96.0.10"; underscores
// count as dashes, as in the programs. For a deprecated kubelet flag that the configuration file replaces,
// Instead names the field.
//
// Sources: the sources of kubelet and kube-proxy of every minor version from 1.14 to 1.37 (see gen.go); for
// 1.36 the list is the one that the programs print. Before 1.23 libraries could add further, undocumented
// flags to kube-proxy (those of cAdvisor and of cloud providers): they are Unknown here.
func CheckFlag(program, flag, version string) Verdict {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	name = strings.ReplaceAll(strings.TrimSpace(name), "_", "-")
	v := Verdict{Name: "--" + name, Source: "kubernetes sources of each minor version, cmd/" + program + " (data/" +
		strings.ReplaceAll(program, "-", "_") + "_flags.txt)"}
	t, known := flagTables()[program]
	if !known {
		v.Status, v.Why = Unknown, fmt.Sprintf("the tables do not include the program %q", program)
		return v
	}
	l, note, ok := minorLine("Kubernetes", version, since1_14, kubernetesNewest)
	if !ok {
		return noVersion(v.Name, version)
	}
	v.Assumed = note
	rows := t.rows[name]
	if len(rows) == 0 {
		return unknownFlag(v, program, name, t)
	}
	advice := flagAdvice[program][name]
	for _, r := range rows {
		v.Since, v.Until = r.span.since.text(), r.span.until.text()
		switch {
		case r.span.holds(l):
			if r.deprecated == (line{}) || l.less(r.deprecated) {
				return v
			}
			v.Status, v.Instead = Deprecated, advice.instead
			v.Why = fmt.Sprintf("deprecated in %s since %s", program, r.deprecated)
			if r.text == "config" {
				v.Why += ": it belongs into the configuration file"
				if field, ok := fieldOfFlag(program, name, l); ok && v.Instead == "" {
					v.Instead = field
				}
			} else if r.text != "" {
				v.Why += ": " + strings.TrimRight(r.text, ".")
			}
			return v
		case l.less(r.span.since):
			v.Status, v.Why = NotYet, fmt.Sprintf("%s takes it since %s", program, r.span.since)
			v.Instead = advice.before
			return v
		}
	}
	v.Status, v.Instead = Removed, advice.instead
	v.Why = fmt.Sprintf("removed from %s in %s; it would refuse to start", program, v.Until)
	if advice.source != "" {
		v.Source += "; " + advice.source
	}
	return v
}

func unknownFlag(v Verdict, program, name string, t flagTable) Verdict {
	v.Status = Unknown
	v.Why = fmt.Sprintf("%s has no such flag in any version from 1.14 to %s", program, kubernetesNewest)
	if right, ok := flagMistakes[program][name]; ok {
		v.Instead = "--" + right
		return v
	}
	for other, table := range flagTables() {
		if _, ok := table.rows[name]; ok && other != program {
			v.Why += "; it is a flag of " + other
			return v
		}
	}
	if near := nearest(name, t.names); near != "" {
		v.Instead = "--" + near
	}
	return v
}
