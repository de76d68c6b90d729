package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// While another process has locked the machine or the cluster, opening it waits until the context ends, and its
// error says what it waited for.
func TestOpenWaitsNoLongerThanItsContext(t *testing.T) {
	dir := t.TempDir()
	for path, open := range map[string]func(ctx context.Context) error{
		filepath.Join(dir, "machine", stateDir, "lock"): func(ctx context.Context) error {
			_, err := Open(ctx, Config{Path: filepath.Join(dir, "machine")})
			return err
		},
		filepath.Join(dir, "cluster", "cluster.lock"): func(ctx context.Context) error {
			_, err := OpenCluster(ctx, ClusterConfig{Dir: filepath.Join(dir, "cluster")})
			return err
		},
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		lock := flock.New(path)
		if err := lock.Lock(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := open(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting for the lock "+path) {
			t.Errorf("have %v", err)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := open(t.Context()); err != nil {
			t.Errorf("when it is free: %v", err)
		}
	}
}
