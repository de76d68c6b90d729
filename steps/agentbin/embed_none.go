//go:build !embedagent

package agentbin

import "io/fs"

// embedded: a plain build carries no agents.
func embedded(os, arch string) ([]byte, error) { return nil, fs.ErrNotExist }
