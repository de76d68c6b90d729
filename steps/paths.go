package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"nodejoin/steps/host"
	"strings"
)

func exists(ctx context.Context, r host.Reader, path string) (bool, error) {
	_, err := r.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// some names the first few of a list.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// removeTree removes a file, or a folder with all that is in it.
func removeTree(ctx context.Context, h host.Host, os, path string) error {
	fi, err := h.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Dir {
		// The folder's own entry tells whether it is a link.
		siblings, err := h.List(ctx, host.Dir(os, path))
		if err != nil {
			return err
		}
		for _, s := range siblings {
			if host.SamePath(os, host.Join(os, host.Dir(os, path), s.Name), path) && s.Elsewhere {
				return inUse(h.Remove(ctx, path))
			}
		}
		if err := removeContents(ctx, h, os, path); err != nil {
			return err
		}
	}
	return inUse(h.Remove(ctx, path))
}

func removeContents(ctx context.Context, h host.Host, os, dir string) error {
	list, err := h.List(ctx, dir)
	if err != nil {
		return err
	}
	for _, entry := range list {
		path := host.Join(os, dir, entry.Name)
		if entry.Dir && !entry.Elsewhere {
			if err := removeContents(ctx, h, os, path); err != nil {
				return err
			}
		}
		if err := inUse(h.Remove(ctx, path)); err != nil {
			return err
		}
	}
	return nil
}
