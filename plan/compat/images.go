package compat

import "fmt"

// serverTags are the tags of mcr.microsoft.com/windows/servercore by build (Microsoft's
// "Windows container version compatibility"); the guides' sample has ltsc2019.
var serverTags = map[int]string{17763: "ltsc2019", 18362: "1903", 18363: "1909", 19041: "2004", 19042: "20H2",
	20348: "ltsc2022", 26100: "ltsc2025"}

// ServerImage returns a Windows Server image whose containers run on a build, "10.0.20348"; an error explains
// why there is none.
func ServerImage(build string) (string, error) {
	n, ok := buildNumber(build)
	if !ok {
		return "", fmt.Errorf("%q is not a Windows build", build)
	}
	if newest := releases[len(releases)-1].Number; n > newest {
		n = newest // a later host runs containers of the newest known one, or none
	}
	tag, ok := serverTags[n]
	if !ok {
		return "", fmt.Errorf("no Windows Server image is known for build %s", build)
	}
	return "mcr.microsoft.com/windows/servercore:" + tag, nil
}

// AgnhostImage is the image of Kubernetes' own tests, a web server and a client that reports through its exit
// code (kubernetes test/images/agnhost).
const AgnhostImage = "registry.k8s.io/e2e-test-images/agnhost:2.53"
