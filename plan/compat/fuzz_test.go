package compat

import (
	"slices"
	"strings"
	"testing"
)

// sane checks that a verdict on any input has a known status, has a reason unless it is
// OK, and is the same the second time.
func sane(t *testing.T, ask func() Verdict) {
	t.Helper()
	v := ask()
	if v.Status < OK || v.Status > NoVersion {
		t.Fatalf("status %d", v.Status)
	}
	if v.Status != OK && v.Why == "" {
		t.Fatalf("no reason: %+v", v)
	}
	if strings.HasSuffix(v.Why, ".") {
		t.Fatalf("the reason ends in a full stop: %q", v.Why)
	}
	if again := ask(); again != v {
		t.Fatalf("answers differ: %+v and %+v", v, again)
	}
}

var versionSeeds = []string{"1.36.3", "v1.14.0", "1.27", "1.99.0", "0.0.0", "1.18446744073709551615.0", "", "x",
	"1.2.3-rc.1+b", "-1.2.3", "1."}

func FuzzCheckFlag(f *testing.F) {
	for _, v := range versionSeeds {
		f.Add(KubeletProgram, "--network-plugin=cni", v)
		f.Add(KubeProxyProgram, "--service", v)
	}
	f.Fuzz(func(t *testing.T, program, flag, version string) {
		sane(t, func() Verdict { return CheckFlag(program, flag, version) })
		for _, p := range []string{KubeletProgram, KubeProxyProgram} {
			v := CheckFlag(p, flag, version)
			if v.Status == NoVersion {
				continue
			}
			if in := slices.Contains(flagsOf(p, version), strings.TrimPrefix(v.Name, "--")); in != v.Accepted() {
				t.Fatalf("%s: listed %t, verdict %+v", p, in, v)
			}
		}
	})
}

func FuzzCheckField(f *testing.F) {
	for _, v := range versionSeeds {
		f.Add("authentication.x509.clientCAFile", v)
		f.Add("evictionHard.", v)
		f.Add("..", v)
	}
	f.Fuzz(func(t *testing.T, path, version string) {
		for _, p := range []string{KubeletProgram, KubeProxyProgram, path} {
			sane(t, func() Verdict { return CheckField(p, path, version) })
		}
	})
}

func FuzzCheckGate(f *testing.F) {
	for _, v := range versionSeeds {
		f.Add("WinOverlay", true, v)
		f.Add("NoSuch", false, v)
	}
	f.Fuzz(func(t *testing.T, gate string, value bool, version string) {
		sane(t, func() Verdict { return CheckGate(gate, value, version).Verdict })
		if g := CheckGate(gate, value, version); g.Accepted() && g.Stage == NoSuchGate {
			t.Fatalf("accepted without a stage: %+v", g)
		}
	})
}

func FuzzWindows(f *testing.F) {
	for _, b := range []string{"10.0.17763", "10.0.20348.1607", "10.0.99999", "10.0.-1", "10.0.1.x", "2022", "",
		"10.0.99999999999999999999"} {
		for _, v := range versionSeeds[:4] {
			f.Add(v, b, "registry.k8s.io/pause:3.9", string(DSR))
		}
	}
	f.Add("1.36.3", "10.0.17763", "pause:", "x")
	f.Fuzz(func(t *testing.T, version, build, image, feature string) {
		sane(t, func() Verdict { return CheckWindows(version, build) })
		sane(t, func() Verdict { return CheckWindowsFeature(WindowsFeature(feature), build) })
		for name := range featureRows {
			sane(t, func() Verdict { return CheckWindowsFeature(name, build) })
		}
		sane(t, func() Verdict { return CheckPause(image, build) })
		KnownIssues(build, feature)
		if v := CheckPause(image, build); v.Status == Refused && v.Instead != "" &&
			CheckPause(v.Instead, build).Status != OK {
			t.Fatalf("advice does not help: %+v", v)
		}
	})
}

func FuzzPairs(f *testing.F) {
	for _, a := range versionSeeds {
		for _, b := range versionSeeds {
			f.Add(a, b, 3)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string, n int) {
		sane(t, func() Verdict { return CheckContainerd(a, b) })
		sane(t, func() Verdict { return CheckDocker(a) })
		sane(t, func() Verdict { return CheckSkew(KubeletProgram, a, b) })
		_, _ = LookupContainerd(a)
		_, _, _ = Tested(a, b)
	})
}

func FuzzObjects(f *testing.F) {
	for _, v := range versionSeeds {
		f.Add("node.k8s.io/v1beta1", "docker", "containerd", v)
		f.Add("beta.kubernetes.io/os", "", "", v)
	}
	f.Fuzz(func(t *testing.T, api, handler, runtime, version string) {
		sane(t, func() Verdict { return CheckRuntimeClass(api, handler, runtime, version) })
		sane(t, func() Verdict { return CheckLabel(api, version) })
	})
}
