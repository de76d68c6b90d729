package recipe

import (
	"fmt"

	"nodejoin/plan/compat"
)

// Runtime is the container runtime.
type Runtime struct {
	Kind    string // "containerd"
	Version string // "2.2.1"
	Pause   string // pause image; "" = by OS and Kubernetes version
}

func checkRuntime(in Input) error {
	if in.Runtime.Kind != "containerd" {
		return &UnsupportedError{"runtime", fmt.Sprintf("%q is not known; containerd is", in.Runtime.Kind)}
	}
	return nil
}

// runtimeArtifacts names the artifacts of the runtime.
func runtimeArtifacts(Input) []string { return []string{compat.ContainerdName} }
