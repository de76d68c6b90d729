package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"nodejoin/steps/host"
)

// Some names the first few of a list.
func Some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// RemoveTree removes a file, or a folder with all that is in it.
func RemoveTree(ctx context.Context, h host.Host, os, path string) error {
	fi, err := h.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Dir {
		// The folder's own entry says if it is a link.
		siblings, err := h.List(ctx, host.Dir(os, path))
		if err != nil {
			return err
		}
		for _, s := range siblings {
			if host.SamePath(os, host.Join(os, host.Dir(os, path), s.Name), path) && s.Elsewhere {
				return InUse(h.Remove(ctx, path))
			}
		}
		if err := removeContents(ctx, h, os, path); err != nil {
			return err
		}
	}
	return InUse(h.Remove(ctx, path))
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
		if err := InUse(h.Remove(ctx, path)); err != nil {
			return err
		}
	}
	return nil
}

// StillRuns is the summary of the error of InUse.
const StillRuns = "a program still runs"

// InUse says what to do about a program that still runs though its service is gone.
func InUse(err error) error {
	if !errors.Is(err, host.ErrBusy) {
		return err
	}
	return &Error{Code: CodeFailed, Summary: StillRuns, Detail: err.Error(),
		Remedy: "containers outlive the services that started them: end them, or restart the machine; then leave " +
			"again, it continues from here"}
}
