package node

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Exit codes of Main.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 3
)

// Service is work that is done once after each boot, as a service of Windows where its
// service manager has started this process.
type Service struct {
	Name string
	Say  func(line string) // writes to the log
	// Work ends with ctx. report writes to the machine's own event log.
	Work func(ctx context.Context, report func(Level, string)) error
	// Keep runs beside the work, and after it, in a service of Windows, until ctx ends; may be nil.
	Keep func(ctx context.Context)
	// Ends says that the service ends with its work. Others count as running until they are stopped.
	Ends bool
}

// SayTo writes lines with the time (UTC) before them.
func SayTo(w io.Writer) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		// the log counts what it could not write
		fmt.Fprintf(w, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), line)
	}
}
