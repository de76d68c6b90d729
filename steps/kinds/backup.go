package kinds

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// backupUndo is the undo of files that backUp renamed.
var backupUndo = steps.Undo{Called: "backup of", New: undoBackup,
	Stays: "it would replace credentials in use; it is restored when the machine leaves"}

// backupPath is where a file of others lies that was in the way of path, until a leave
// restores it; Detail of the claim, where there is one, says it.
func backupPath(path string, c record.Claim) string { return cmp.Or(c.Detail, path+".nodejoin-backup") }

// backUp takes a file out of the way: what nodejoin or a program that it runs made is
// removed; what was there before them is renamed, and a leave restores it. A link is
// renamed itself, not what it points to.
func backUp(ctx context.Context, h host.Host, e *steps.Env, path string) error {
	there, err := host.Exists(ctx, h, path)
	if err != nil || !there {
		return err
	}
	key := record.Backup.Of(path)
	have, _ := e.Record.Lookup(key)
	to := backupPath(path, have)
	backedUp, err := host.Exists(ctx, h, to)
	if err != nil {
		return err
	}
	if backedUp || e.Removes(path) != steps.RemovesNothing {
		return h.Remove(ctx, path)
	}
	if err := e.Claim(ctx, h, record.New{Key: key, Detail: to}); err != nil {
		return err
	}
	return h.Rename(ctx, path, to)
}

// undoBackup restores what backUp renamed.
func undoBackup(key record.Key, claim record.Claim) (steps.Undoing, error) {
	path, from := key.Name, backupPath(key.Name, claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, string, error) {
			there, err := host.Exists(ctx, r, from)
			if err != nil || !there {
				return steps.Change{}, "", err
			}
			return steps.Restored(steps.Diff{Name: "path", Have: from, Want: path}), "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			if err := h.Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return steps.InUse(err)
			}
			return h.Rename(ctx, from, path)
		},
	}, nil
}

// backupRestored reports whether what is at path is what backUp had taken from there.
func backupRestored(ctx context.Context, r host.Reader, e *steps.Env, path string) (bool, error) {
	c, ok := e.Record.Lookup(record.Backup.Of(path))
	if !ok {
		return false, nil
	}
	there, err := host.Exists(ctx, r, backupPath(path, c))
	return !there, err
}
