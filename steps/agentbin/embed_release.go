//go:build embedagent

package agentbin

import "embed"

//go:embed bin
var bin embed.FS

// embedded is the agent that `go generate ./steps/agentbin` built before the release.
func embedded(os, arch string) ([]byte, error) { return bin.ReadFile("bin/" + os + "-" + arch) }
