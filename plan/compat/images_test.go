package compat

import "testing"

func TestServerImage(t *testing.T) {
	for build, want := range map[string]string{"10.0.17763": "ltsc2019", "10.0.20348.2582": "ltsc2022",
		"10.0.26100": "ltsc2025", "10.0.29999": "ltsc2025", "10.0.25398": "", "2022": "", "": ""} {
		have, err := ServerImage(build)
		if want != "" {
			want = "mcr.microsoft.com/windows/servercore:" + want
		}
		if have != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", build, have, err, want)
		}
	}
	// Every release that Kubernetes names has an image.
	for _, r := range releases {
		if _, ok := serverTags[r.Number]; !ok && r.kubernetes != (span{}) {
			t.Errorf("%s has no image", r.Name)
		}
	}
}
