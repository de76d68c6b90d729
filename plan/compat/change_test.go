package compat

import (
	"slices"
	"strings"
	"testing"
)

// A version change may affect how a program is run. The reason is given where the tables know it.
func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		have, want Use
		from, to   string
		out        []string // prefixes
	}{
		"nothing": {have: Use{Args: []string{"--config=a"}, Config: "port: 1\n"},
			want: Use{Args: []string{"--config=a"}, Config: "port: 2\n"}, from: "1.35.4", to: "1.36.3"},
		"dockershim goes": {have: Use{Args: []string{`C:\k\kubelet.exe`, "--network-plugin=cni", "-log-file=x"}},
			want: Use{Args: []string{`C:\k\kubelet.exe`}}, from: "1.23.17", to: "1.24.17",
			out: []string{"kubelet: flag --network-plugin dropped: removed from kubelet in 1.24"}},
		"endpoint becomes a field": {have: Use{Args: []string{"--container-runtime-endpoint=e"}, Config: "kind: x\n"},
			want: Use{Config: "containerRuntimeEndpoint: e\n"}, from: "1.26.15", to: "1.27.16",
			out: []string{"kubelet: flag --container-runtime-endpoint dropped: deprecated in kubelet since 1.27",
				"kubelet: field containerRuntimeEndpoint added: the configuration of kubelet has it since 1.27"}},
		"a gate becomes final": {have: Use{Config: "featureGates: {WindowsHostProcessContainers: true}\n"},
			want: Use{Config: "featureGates: {WindowsHostProcessContainers: true}\n"}, from: "1.25.16", to: "1.26.15",
			out: []string{"kubelet: feature gate WindowsHostProcessContainers: the feature is generally available"}},
		"a person's own": {have: Use{Config: "maxPods: 1\nlogging: {verbosity: 2}\n"},
			want: Use{Config: "logging: {verbosity: 2}\n"}, from: "1.35.4", to: "1.36.3",
			out: []string{"kubelet: field maxPods dropped"}},
	} {
		have := Changes(KubeletProgram, c.have, c.want, c.from, c.to)
		if !slices.EqualFunc(have, c.out, strings.HasPrefix) {
			t.Errorf("%s: have %q, want %q", name, have, c.out)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		order int
		ok    bool
	}{{"v1.36.3", "1.36.3", 0, true}, {"v1.36.3-gke.1", "1.36.3", 0, true}, {"v1.9.10", "1.10.0", -1, true},
		{"1.36.4", "1.36.3", 1, true}, {"", "1.36.3", 0, false}} {
		if order, ok := Compare(c.a, c.b); order != c.order || ok != c.ok {
			t.Errorf("Compare(%q, %q) = %d, %v", c.a, c.b, order, ok)
		}
	}
}
