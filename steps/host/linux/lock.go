//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is the pause between two tries to get the lock.
const lockPoll = 10 * time.Millisecond

// locked runs f while no other process changes services or environment; the wait
// ends with ctx.
func (h *Host) locked(ctx context.Context, f func() error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := makeDirs(h.dataDir); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(h.dataDir, ".host.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("lock: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return f()
}
