//go:build !embedagent

package agentbin

import "io/fs"

// embedded: a plain build carries no agents.
func embedded(os, arch string) (Packed, error) { return Packed{}, fs.ErrNotExist }
