//go:build !embedagent

package agentbin

import (
	"context"
	"fmt"
	"io/fs"
)

// embedded: a plain build carries no agents.
func embedded(os, arch string) (Packed, error) { return Packed{}, fs.ErrNotExist }

// embeddedDigest: a plain build carries no agents.
func embeddedDigest(os, arch string) (string, error) { return "", fs.ErrNotExist }

// built is the agent of this program's own source.
func built(ctx context.Context, cache, os, arch string) (path, sha256 string, err error) {
	s, err := findSource(cache)
	if err != nil {
		return "", "", fmt.Errorf("%w: none for %s/%s is embedded, and %w", ErrNoAgent, os, arch, err)
	}
	return s.get(ctx, os, arch)
}
