package compat

import "fmt"

// CheckSkew reports whether a node component (KubeletProgram or KubeProxyProgram) of one version may talk to
// an API server of another: OK, Refused (newer than the API server; too old; another major version). Instead
// names the range of versions that works. The rule needs no table and assumes nothing.
//
// Source: Kubernetes version skew policy: never newer than the API server, at most three minor versions
// older; a component before 1.25 at most two.
func CheckSkew(program, version, apiServer string) Verdict {
	v := Verdict{Name: program + " " + Canonical(version), Source: "kubernetes.io/releases/version-skew-policy"}
	c, ok := skewLine(version)
	if !ok {
		return noVersion(v.Name, version)
	}
	s, ok := skewLine(apiServer)
	if !ok {
		return noVersion(v.Name, apiServer)
	}
	oldest := line{s.major, s.minor - min(s.minor, 3)}
	if limit := (line{1, 25}); s.major == 1 && oldest.less(limit) {
		// two before 1.25: the oldest is the first of 1.25 and API server - 2
		oldest = line{1, s.minor - min(s.minor, 2)}
		if limit.less(oldest) {
			oldest = limit
		}
	}
	v.Instead = fmt.Sprintf("%s to %s", oldest, s)
	switch {
	case c.major != s.major:
		v.Status, v.Why = Refused, fmt.Sprintf("%s and API server %s have different major versions", v.Name, s)
	case s.less(c):
		v.Status, v.Why = Refused, fmt.Sprintf("%s is newer than the API server %s", v.Name, s)
	case c.less(oldest):
		window := 3
		if c.less(line{1, 25}) {
			window = 2
		}
		v.Status, v.Why = Refused, fmt.Sprintf(
			"%s is %d minor versions older than the API server %s; at most %d are supported", v.Name,
			s.minor-c.minor, s, window)
	default:
		v.Instead = ""
	}
	return v
}

func skewLine(version string) (line, bool) {
	l, _, ok := minorLine("", version, line{}, line{1 << 32, 0})
	return l, ok
}
