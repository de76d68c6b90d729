package compat

import (
	"strings"
	"testing"
)

func TestCheckWindows(t *testing.T) {
	for _, c := range []struct {
		kubernetes, build string
		want              Status
		part              string // part of Why or Instead
	}{
		{"1.14.0", "10.0.17763", OK, ""},
		{"1.36.3", "10.0.17763.5000", OK, ""},
		{"1.22.17", "10.0.20348", NotYet, "1.23"},
		{"1.23.17", "10.0.20348", OK, ""},
		{"1.32.0", "10.0.26100", NotYet, "1.33"},
		{"1.36.3", "10.0.26100", OK, ""},
		{"1.18.20", "10.0.18362", Deprecated, "2020-12-08"},
		{"1.19.16", "10.0.18362", Removed, "until Kubernetes 1.18"},
		{"1.20.0", "10.0.19041", Deprecated, ""},
		{"1.27.16", "10.0.19042", Deprecated, ""},
		{"1.28.0", "10.0.19042", Removed, ""},
		{"1.36.3", "10.0.25398", Unknown, "23H2"},
		{"1.36.3", "10.0.20349", Unknown, ""},
		{"1.36.3", "20348", Unknown, "10.0.20348"},
		{"1.36.3", "2022", Unknown, "10.0.20348"},
		{"1.36.3", "ltsc2025", Unknown, "10.0.26100"},
		{"1.36.3", "", Unknown, ""},
		{"abc", "10.0.20348", NoVersion, ""},
	} {
		have := CheckWindows(c.kubernetes, c.build)
		if have.Status != c.want || !strings.Contains(have.Why+have.Instead, c.part) {
			t.Errorf("%s on %s: have %+v, want %v %q", c.kubernetes, c.build, have, c.want, c.part)
		}
	}
	have := CheckWindows("1.40.0", "10.0.30000")
	if have.Status != OK || !strings.Contains(have.Assumed, "treats it as 1.37") ||
		!strings.Contains(have.Assumed, "26100") {
		t.Errorf("newer than the tables: %+v", have)
	}
}

// The rows are in ascending order and have a source.
func TestReleases(t *testing.T) {
	last := 0
	for _, r := range releases {
		if r.Number <= last || r.source == "" || r.Name == "" ||
			(r.Channel == SemiAnnual) != (r.Retired != "" && r.Channel != Annual) {
			t.Errorf("row %+v", r)
		}
		last = r.Number
	}
}

func TestCheckWindowsFeature(t *testing.T) {
	for _, c := range []struct {
		feature WindowsFeature
		build   string
		want    Status
		instead string
	}{
		{Overlay, "10.0.17763", OK, "KB4489899"},
		{Overlay, "10.0.17763.300", NotYet, "KB4489899"},
		{Overlay, "10.0.17763.379", OK, ""},
		{Overlay, "10.0.20348", OK, ""},
		{DSR, "10.0.17763.1000", NotYet, "KB4580390"},
		{DSR, "10.0.17763.1554", OK, ""},
		{DSR, "10.0.20348.1", OK, ""},
		{DualStack, "10.0.17763", NotYet, "19041"},
		{DualStack, "10.0.19041.500", NotYet, "19041.610"},
		{DualStack, "10.0.20348", OK, ""},
		{DualStackOverlay, "10.0.26100", Refused, ""},
		{IPv6Only, "10.0.26100", Refused, ""},
		{SessionAffinity, "10.0.17763", NotYet, "20348"},
		{SessionAffinity, "10.0.20348", OK, ""},
		{AffinityTimeout, "10.0.26100", Refused, ""},
		{PreserveDestination, "10.0.17763", NotYet, "18362"},
		{VXLANPort, "10.0.17763", NotYet, ""},
		{LocalHostRoute, "10.0.17763", NotYet, ""},
		{HostProcess, "10.0.17763", OK, ""},
		{"teleport", "10.0.17763", Unknown, ""},
		{DSR, "windows", Unknown, ""},
	} {
		have := CheckWindowsFeature(c.feature, c.build)
		if have.Status != c.want || !strings.Contains(have.Instead, c.instead) {
			t.Errorf("%s on %s: have %+v, want %v %q", c.feature, c.build, have, c.want, c.instead)
		}
	}
	for name, row := range featureRows {
		if row.source == "" {
			t.Errorf("%s has no source", name)
		}
	}
	if have := CheckWindowsFeature(DSR, "10.0.40000"); have.Status != OK || have.Assumed == "" {
		t.Errorf("newer build: %+v", have)
	}
}

func TestFeatureSince(t *testing.T) {
	if build, revision := FeatureSince(DualStack); build != "10.0.19041" || revision != 610 {
		t.Errorf("dual stack: %s, %d", build, revision)
	}
	if build, revision := FeatureSince(IPv6Only); build != "" || revision != 0 {
		t.Errorf("IPv6 alone: %s, %d", build, revision)
	}
}

func TestKnownIssues(t *testing.T) {
	if have := KnownIssues("10.0.26100", "vxlan"); len(have) != 1 || have[0].Source == "" {
		t.Errorf("have %+v", have)
	}
	if _, broken := Updates("vxlan"); broken["10.0.26100.0-6898"] == "" || broken["10.0.20348.2582-2654"] == "" {
		t.Errorf("updates of an overlay: %v", broken)
	}
	if _, broken := Updates("host-gw"); broken["10.0.26100.0-6898"] != "" {
		t.Errorf("updates of host-gw: %v", broken)
	}
	if have := KnownIssues("10.0.26100", "host-gw"); len(have) != 0 {
		t.Errorf("have %+v", have)
	}
}

func TestContainerdSchema(t *testing.T) {
	for version, want := range map[string]int{"1.6.36": 2, "1.7.28": 2, "2.0.0": 3, "2.2.1": 3, "2.3.0": 4, "2.4.2": 4} {
		if c, err := LookupContainerd(version); err != nil || c.Schema != want || c.Assumed != "" {
			t.Errorf("containerd %s: %+v, %v", version, c, err)
		}
	}
	if c, err := LookupContainerd("3.0.0"); err != nil || c.Schema != 4 || c.Assumed == "" {
		t.Errorf("newer: %+v, %v", c, err)
	}
	if _, err := LookupContainerd("2.4"); err == nil {
		t.Error("2.4 is accepted")
	}
}

func TestCheckContainerd(t *testing.T) {
	for _, c := range []struct {
		kubernetes, containerd string
		want                   Status
		part                   string
	}{
		{"1.17.17", "1.4.0", Refused, "1.18"},
		{"1.19.16", "1.3.0", Refused, "1.4.0"},
		{"1.19.16", "1.6.36", OK, ""},
		{"1.19.16", "2.0.0", Refused, "v1alpha2"},
		{"1.23.17", "2.0.0", OK, ""},
		{"1.24.17", "1.6.36", OK, ""},
		{"1.26.15", "1.5.18", Refused, "CRI v1"},
		{"1.26.15", "1.6.10", Deprecated, "1.6.15"},
		{"1.27.16", "1.7.0", OK, ""},
		{"1.31.0", "2.4.2", OK, ""},
		{"1.34.4", "2.0.5", Deprecated, "2.0.6"},
		{"1.36.3", "2.4.2", OK, ""},
		{"1.37.2", "2.4.2", OK, ""},
		{"1.37.2", "2.2.9", Deprecated, "2.3.0"},
		{"1.36.3", "1.7.28", Deprecated, "2.3.0"},
		{"1.36.3", "2", NoVersion, ""},
		{"", "2.4.2", NoVersion, ""},
	} {
		have := CheckContainerd(c.kubernetes, c.containerd)
		if have.Status != c.want || !strings.Contains(have.Why+have.Instead, c.part) {
			t.Errorf("%s with containerd %s: have %+v, want %v %q", c.kubernetes, c.containerd, have, c.want, c.part)
		}
	}
}

func TestDocker(t *testing.T) {
	for version, want := range map[string]Status{"1.14.0": OK, "1.19.16": OK, "1.20.0": Deprecated, "1.23.17": Deprecated,
		"1.24.0": Removed, "1.36.3": Removed, "": NoVersion} {
		if have := CheckDocker(version); have.Status != want || want == Removed && have.Instead == "" {
			t.Errorf("docker %s: %+v, want %v", version, have, want)
		}
	}
}

func TestCheckPause(t *testing.T) {
	for _, c := range []struct {
		image, build string
		want         Status
		instead      string
	}{
		{"registry.k8s.io/pause:3.10.2", "10.0.26100", OK, ""},
		{"registry.k8s.io/pause:3.10.1", "10.0.26100", Refused, "registry.k8s.io/pause:3.10.2"},
		{"mcr.microsoft.com/oss/kubernetes/pause:3.6", "10.0.20348", OK, ""},
		{"k8s.gcr.io/pause:3.5", "10.0.20348", Refused, "registry.k8s.io/pause:3.10.2"},
		{"k8s.gcr.io/pause:3.2", "10.0.17763", Refused, "registry.k8s.io/pause:3.10.2"},
		{"mcr.microsoft.com/oss/kubernetes/pause:1.4.1", "10.0.17763", OK, ""},
		{"mcr.microsoft.com/k8s/core/pause:1.2.0", "10.0.20348", Refused, "3.10.2"},
		{"registry.k8s.io/pause:3.7", "10.0.18363", Refused, "registry.k8s.io/pause:3.6"},
		{"registry.k8s.io/pause:3.9", "10.0.19042", Refused, "registry.k8s.io/pause:3.7"},
		{"registry.k8s.io/pause:3.9", "10.0.17763", OK, ""},
		{"registry.k8s.io/pause", "10.0.17763", Unknown, ""},
		{"registry.k8s.io/pause@sha256:abc", "10.0.17763", Unknown, ""},
		{"example.com/other:3.9", "10.0.17763", Unknown, ""},
		{"registry.k8s.io/pause:latest", "10.0.17763", Unknown, ""},
		{"registry.k8s.io/pause:3.9", "x", Unknown, ""},
		{"registry.k8s.io/pause:0.8", "10.0.17763", Unknown, ""},
	} {
		have := CheckPause(c.image, c.build)
		if have.Status != c.want || !strings.Contains(have.Instead, c.instead) {
			t.Errorf("%s on %s: have %+v, want %v %q", c.image, c.build, have, c.want, c.instead)
		}
		if have.Status == Refused {
			if again := CheckPause(have.Instead, c.build); again.Status != OK {
				t.Errorf("%s on %s: the advice %s is %+v", c.image, c.build, have.Instead, again)
			}
		}
	}
	if have := CheckPause("registry.k8s.io/pause:3.11", "10.0.30000"); have.Status != OK || have.Assumed == "" {
		t.Errorf("newer: %+v", have)
	}
}

func TestCheckSkew(t *testing.T) {
	for _, c := range []struct {
		version, apiServer string
		want               Status
		instead            string
	}{
		{"1.36.3", "1.36.0", OK, ""}, {"1.33.0", "1.36.3", OK, ""}, {"1.32.13", "1.36.3", Refused, "1.33 to 1.36"},
		{"1.37.0", "1.36.3", Refused, "1.33 to 1.36"}, {"1.25.16", "1.28.0", OK, ""},
		{"1.24.17", "1.27.0", Refused, "1.25 to 1.27"},
		{"1.24.17", "1.26.0", OK, ""}, {"1.23.17", "1.26.0", Refused, "1.24 to 1.26"}, {"1.20.0", "1.22.0", OK, ""},
		{"1.19.0", "1.22.0", Refused, "1.20 to 1.22"}, {"1.33", "v1.36", OK, ""}, {"2.0.0", "1.36.0", Refused, ""},
		{"1.36.0", "2.0.0", Refused, ""}, {"1.0.0", "1.1.0", OK, ""}, {"x", "1.36.0", NoVersion, ""},
		{"1.36.0", "", NoVersion, ""},
	} {
		have := CheckSkew(KubeletProgram, c.version, c.apiServer)
		if have.Status != c.want || have.Instead != c.instead && c.instead != "" || have.Assumed != "" {
			t.Errorf("%s with API server %s: have %+v, want %v %q", c.version, c.apiServer, have, c.want, c.instead)
		}
	}
}

func TestCheckRuntimeClass(t *testing.T) {
	for _, c := range []struct {
		api, handler, runtime, kubernetes string
		want                              Status
		instead                           string
	}{
		{"node.k8s.io/v1", HandlerProcess, "containerd", "1.36.3", OK, ""},
		{"node.k8s.io/v1beta1", HandlerProcess, "containerd", "1.36.3", Removed, "node.k8s.io/v1"},
		{"node.k8s.io/v1beta1", HandlerProcess, "containerd", "1.24.0", Deprecated, "node.k8s.io/v1"},
		{"node.k8s.io/v1beta1", "docker", "docker", "1.19.16", OK, ""},
		{"node.k8s.io/v1", "docker", "docker", "1.19.16", NotYet, "node.k8s.io/v1beta1"},
		{"node.k8s.io/v1", "docker", "containerd", "1.27.16", Refused, HandlerProcess},
		{"", "docker", "containerd", "1.27.16", Refused, HandlerProcess},
		{"", "runhcs-wcow-process", "docker", "1.23.17", Refused, "docker"},
		{"node.k8s.io/v2", "docker", "containerd", "1.27.16", Unknown, "node.k8s.io/v1"},
		{"node.k8s.io/v1", "", "containerd", "1.27.16", Refused, HandlerProcess},
		{"node.k8s.io/v1", "my-runtime", "containerd", "1.27.16", OK, "my-runtime"},
		{"node.k8s.io/v1", "docker", "mcr", "1.27.16", Deprecated, ""},
		{"node.k8s.io/v1", "docker", "mcr", "?", NoVersion, ""},
	} {
		have := CheckRuntimeClass(c.api, c.handler, c.runtime, c.kubernetes)
		if have.Status != c.want || !strings.Contains(have.Instead, c.instead) {
			t.Errorf("%+v: have %+v", c, have)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		key, kubernetes string
		want            Status
		instead         string
	}{
		{"beta.kubernetes.io/os", "1.36.3", Deprecated, "kubernetes.io/os"},
		{"beta.kubernetes.io/arch", "1.14.0", Deprecated, "kubernetes.io/arch"},
		{"kubernetes.io/os", "1.14.0", OK, ""},
		{"topology.kubernetes.io/zone", "1.16.0", NotYet, "failure-domain.beta.kubernetes.io/zone"},
		{"failure-domain.beta.kubernetes.io/zone", "1.16.0", OK, ""},
		{"node-role.kubernetes.io/master", "1.23.0", Deprecated, "node-role.kubernetes.io/control-plane"},
		{"node-role.kubernetes.io/master", "1.24.0", Removed, "node-role.kubernetes.io/control-plane"},
		{"node.kubernetes.io/windows-build", "1.16.0", NotYet, ""},
		{"node.kubernetes.io/windows-build", "1.17.0", OK, ""},
		{"example.com/x", "1.36.3", OK, ""},
		{"example.com/x", "1", NoVersion, ""},
	} {
		if have := CheckLabel(c.key, c.kubernetes); have.Status != c.want || have.Instead != c.instead {
			t.Errorf("%+v: have %+v", c, have)
		}
	}
}
