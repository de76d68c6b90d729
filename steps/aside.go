package steps

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps/host"
)

// asideName is where a file of others lies that is in the way, until leave brings it back.
func asideName(path string) string { return path + ".nodejoin-aside" }

// putAside takes a file out of the way: what nodejoin or a program of its own made is
// removed, what was there before them is renamed, and leave brings it back. A link is
// moved itself, not what it points to.
func putAside(ctx context.Context, h host.Host, e *Env, path string) error {
	there, err := host.Exists(ctx, h, path)
	if err != nil || !there {
		return err
	}
	kept, err := host.Exists(ctx, h, asideName(path))
	if err != nil {
		return err
	}
	if kept || e.goes(path) {
		return h.Remove(ctx, path)
	}
	if err := e.claim(ctx, h, claim{key: "aside:" + path}); err != nil {
		return err
	}
	return h.Rename(ctx, path, asideName(path))
}

// undoAside brings back what putAside renamed.
func undoAside(path string, _ Owned) (undo, error) {
	return undo{
		look: func(ctx context.Context, r host.Reader, _ *Env) (Change, string, error) {
			kept, err := host.Exists(ctx, r, asideName(path))
			if err != nil || !kept {
				return Change{}, "", err
			}
			return restored(Diff{Name: "path", Have: asideName(path), Want: path}), "", nil
		},
		do: func(ctx context.Context, h host.Host, _ *Env) error {
			if err := h.Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return inUse(err)
			}
			return h.Rename(ctx, asideName(path), path)
		},
	}, nil
}

// broughtBack tells that what is at path is what putAside took from there.
func (e *Env) broughtBack(ctx context.Context, r host.Reader, path string) (bool, error) {
	if _, ok := e.Record.Owned["aside:"+path]; !ok {
		return false, nil
	}
	kept, err := host.Exists(ctx, r, asideName(path))
	return !kept, err
}
