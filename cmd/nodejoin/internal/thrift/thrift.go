// Package thrift chooses between memory and processor time: how much garbage may be there at once.
package thrift

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Percentages of Go's GOGC; its smallest heap is 4 MB at 100.
const (
	first   = 600 // until garbage is collected for the first time: 24 MB, which a run over a few machines does not reach
	usual   = 50
	hurried = 100
)

var now struct {
	sync.Mutex
	collected bool
	hurries   int
}

// set applies a change, then sets the percentage that follows from it. The variable GOGC of Go takes precedence.
func set(change func()) {
	now.Lock()
	defer now.Unlock()
	change()
	percent := usual
	switch {
	case os.Getenv("GOGC") != "":
		return
	case !now.collected:
		percent = first
	case now.hurries > 0:
		percent = hurried
	}
	debug.SetGCPercent(percent)
}

// On keeps the memory of this process small: runs over a thousand machines need two thirds, for a tenth more processor
// time. A small run collects no garbage at all.
func On() {
	set(func() { now.collected = false })
	seen := new([64]byte) // unreachable at once; a smaller one may lie beside others, and stay
	runtime.AddCleanup(seen, func(struct{}) { set(func() { now.collected = true }) }, struct{}{})
}

// Off is for what takes time rather than memory, until on is called: the plan of 10,000 nodes compiles in a fifth less
// time, with a tenth more memory.
func Off() (on func()) {
	set(func() { now.hurries++ })
	return func() { set(func() { now.hurries-- }) }
}
