package supervise

import (
	"context"
	"fmt"
	"os"
)

// foreground runs outside of a service manager.
func foreground(ctx context.Context, opt options, log *log) int {
	s := &supervisor{delay: opt.delay, log: log, started: func() {},
		start: func() (program, error) { return startProcess(opt.command, nil, "", log, tree{}) }}
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return exitFailed
	}
	return exitDone
}
