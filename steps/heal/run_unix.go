//go:build unix

package heal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// run does the work until it is done or a signal comes.
func run(_ string, _ func(string), work func(ctx context.Context, report func(Level, string)) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := work(ctx, func(Level, string) {}); err != nil && ctx.Err() == nil {
		return exitFailed
	}
	return exitDone
}
