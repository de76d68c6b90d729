// Package agentbin provides the agent for a machine: embedded in a release build (build tag embedagent),
// otherwise built from the module's own source and cached in the user's cache folder.
package agentbin

//go:generate go run ./gen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// Targets are the machines that a release carries agents for, as "os/arch".
var Targets = []string{"linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

// Get returns the agent for a machine as a file and its sha256 in lower-case hex. The file does not change
// while it is used; beside it lies a packed one (Carried). A release writes the packed one at Keep, and the
// other at Unpack. A plan with nodes needs both when it is compiled, as its step "agent" takes the file; another plan
// needs neither while the agent is on the machines.
// If the agent has to be built, that takes as long as the Go tool does, bounded by ctx.
func Get(ctx context.Context, os, arch string) (path, sha256 string, err error) {
	if !slices.Contains(Targets, os+"/"+arch) {
		return "", "", fmt.Errorf("%w: %s/%s is not one of %v", ErrNoAgent, os, arch, Targets)
	}
	dir, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	digest, err := embeddedDigest(os, arch)
	if err == nil {
		path = filepath.Join(dir, fileName(os, arch, digest))
		carry(path, func() (Packed, error) { return embedded(os, arch) })
		return path, digest, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	return built(ctx, dir, os, arch)
}
