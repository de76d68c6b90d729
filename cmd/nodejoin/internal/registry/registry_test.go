package registry

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"nodejoin/plan"
)

// TestChoose: each platform gets what a container runtime there takes.
func TestChoose(t *testing.T) {
	index := []v1.Descriptor{
		{Size: 1, Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
		{Size: 2, Platform: &v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}},
		{Size: 3, Platform: &v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.17763.8644"}},
		{Size: 4, Platform: &v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.20348.4893"}},
		{Size: 5, Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}, // an attestation
		{Size: 6},
		{Size: 7, Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	}
	for _, c := range []struct {
		of   plan.Image
		want []int64
	}{
		{plan.Image{OS: "linux", Arch: "amd64"}, []int64{1}},
		{plan.Image{OS: "linux", Arch: "arm64"}, []int64{2}},
		{plan.Image{OS: "windows", Arch: "amd64", Build: "10.0.17763"}, []int64{3}},
		{plan.Image{OS: "windows", Arch: "amd64", Build: "10.0.20348"}, []int64{4}},
		{plan.Image{OS: "windows", Arch: "amd64", Build: "10.0.26100"}, []int64{4}}, // runs that of 20348
		{plan.Image{OS: "windows", Arch: "amd64", Build: "10.0.19042"}, nil},        // runs that of its own build only
		{plan.Image{OS: "windows", Arch: "amd64"}, []int64{3, 4}},
		{plan.Image{OS: "windows", Arch: "arm64"}, nil},
		{plan.Image{OS: "linux", Arch: "s390x"}, nil},
	} {
		var have []int64
		for _, d := range choose(index, c.of) {
			have = append(have, d.Size)
		}
		if len(have) != len(c.want) || len(have) > 0 && have[0] != c.want[0] || len(have) > 1 && have[1] != c.want[1] {
			t.Errorf("%s: %v, want %v", c.of.Platform(), have, c.want)
		}
	}
}
