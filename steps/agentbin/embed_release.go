//go:build embedagent

package agentbin

import "embed"

//go:embed bin
var bin embed.FS

// embedded is the agent that `go generate ./steps/agentbin` built before the release.
func embedded(os, arch string) (Packed, error) {
	tgz, err := bin.ReadFile("bin/" + os + "-" + arch + PackedSuffix)
	if err != nil {
		return Packed{}, err
	}
	digest, err := bin.ReadFile("bin/" + os + "-" + arch + ".sha256")
	return Packed{TGZ: tgz, Digest: string(digest)}, err
}
