//go:build embedagent

package agentbin

import (
	"context"
	"embed"
	"fmt"
)

//go:embed bin
var bin embed.FS

// embedded is the agent that `go generate ./steps/agentbin` built before the release.
func embedded(os, arch string) (Packed, error) {
	data, err := bin.ReadFile("bin/" + os + "-" + arch + Carried(os))
	if err != nil {
		return Packed{}, err
	}
	digest, err := embeddedDigest(os, arch)
	return Packed{Form: Carried(os), Data: data, Digest: digest}, err
}

// embeddedDigest is the sha256 of an embedded agent.
func embeddedDigest(os, arch string) (string, error) {
	digest, err := bin.ReadFile("bin/" + os + "-" + arch + ".sha256")
	return string(digest), err
}

// built: a release builds no agents.
func built(_ context.Context, _, os, arch string) (path, sha256 string, err error) {
	return "", "", fmt.Errorf("%w: none for %s/%s is embedded", ErrNoAgent, os, arch)
}
