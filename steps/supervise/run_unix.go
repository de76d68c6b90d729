//go:build unix

package supervise

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// run keeps the program running until SIGTERM or an interrupt.
func run(opt options, log *log) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return foreground(ctx, opt, log)
}
