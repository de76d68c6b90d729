//go:build !linux

package agent

import "nodejoin/steps/supervise"

// Digest is the sha256 of the agent's program, in hex.
func Digest(program string, _ int, _ Sent) (string, error) { return supervise.Digest(program) }
