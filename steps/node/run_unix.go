//go:build unix

package node

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Run does the work until it is done or a signal comes. It returns the exit code.
func (s Service) Run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.Work(ctx, journal); err != nil && ctx.Err() == nil {
		return exitFailed
	}
	return exitDone
}

// journal writes to the standard error of the service, which systemd puts into the journal. The number is the
// priority there (sd-daemon(3)).
func journal(l Level, text string) {
	priority := 6 // information
	if l == Error {
		priority = 3
	}
	fmt.Fprintf(os.Stderr, "<%d>%s\n", priority, text)
}
