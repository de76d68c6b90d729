package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// firstAt is the size of the heap, as a percentage of Go's smallest one of 4 MB, at which garbage is first collected.
const firstAt = 400

// collectLater lets the heap grow to 16 MB before garbage is first collected, which a run of a small plan does not
// reach. From then on it is Go's usual 100 %, so that a large one needs no more memory. The variable GOGC of Go takes
// precedence.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(firstAt)
	collected := new([64]byte) // unreachable at once; a smaller one may lie beside others, and stay
	runtime.AddCleanup(collected, func(percent int) { debug.SetGCPercent(percent) }, usual)
}
