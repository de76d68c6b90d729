//go:build unix

package node

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Run does the work until it is done or a signal comes. It returns the exit code.
func (s Service) Run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.Work(ctx, func(Level, string) {}); err != nil && ctx.Err() == nil {
		return exitFailed
	}
	return exitDone
}
