// Package thrift chooses between memory and processor time: how much garbage may be there at once.
package thrift

import (
	"os"
	"runtime/debug"
)

// On keeps the memory of this process small: runs over a thousand machines need two thirds, for a tenth more processor
// time. The variable GOGC of Go takes precedence.
func On() { set(50) }

// Off is for what takes time rather than memory, until on is called: the plan of 10,000 nodes compiles in a fifth less
// time, with a tenth more memory.
func Off() (on func()) {
	before := set(100)
	return func() { set(before) }
}

// set returns what was set before.
func set(percent int) (before int) {
	if os.Getenv("GOGC") != "" {
		return percent
	}
	return debug.SetGCPercent(percent)
}
