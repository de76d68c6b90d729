package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"nodejoin/steps"
)

// lockWait is how long an apply waits for another one on the same machine: longer
// than DefaultIdle, after which the agent of a lost connection ends by itself.
const lockWait = DefaultIdle + 30*time.Second

// lockHost keeps other applies off this machine until unlock is called; the system
// drops the lock of a process that dies.
func lockHost(ctx context.Context, dataDir string) (unlock func(), err error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	l := flock.New(filepath.Join(dataDir, "apply.lock"))
	ok, err := l.TryLockContext(ctx, 100*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) || err == nil && !ok {
		return nil, &steps.Error{Code: steps.CodeFailed, Summary: "another apply is running on this machine",
			Detail: fmt.Sprintf("%s has been held by another nodejoin for %s", l.Path(), lockWait),
			Remedy: "let it end, then apply again"}
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Unlock() }, nil
}
