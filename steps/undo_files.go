package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// undoFile removes a file that nodejoin made, or gives it back its earlier content and
// access. What an interrupted write left beside it goes too.
func undoFile(path string, o Owned) (undo, error) {
	prev, err := previous[previousFile](o)
	look := func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
		temp, err := host.Exists(ctx, r, host.TempName(path))
		if err != nil {
			return Change{}, "", err
		}
		fi, err := r.Stat(ctx, path)
		there := err == nil
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return Change{}, "", err
		case there && fi.Dir:
			return Change{}, "a directory is in its place now", nil
		case !o.Existed && !there && !temp:
			return Change{}, "", nil
		case !o.Existed:
			return Change{Action: ActionDelete}, "", nil
		}
		same, err := prev.same(ctx, r, e, path, there)
		switch {
		case err != nil:
			return Change{}, "", err
		case same && len(accessDiff(e.Facts.OS, fi.Access, prev.Access)) == 0 && !temp:
			return Change{}, "", nil
		case !same && prev.SHA256 != "":
			kept, err := e.fileDigest(ctx, r, prev.kept(e))
			if err != nil {
				return Change{}, "", err
			}
			if kept != prev.SHA256 {
				return Change{}, "its earlier content is no more in nodejoin's folder; the file stays as it is", nil
			}
		}
		return restored(), "", nil
	}
	do := func(ctx context.Context, h host.Host, e *Env) error {
		temp, err := host.Exists(ctx, h, host.TempName(path))
		if err == nil && temp {
			err = h.Remove(ctx, host.TempName(path))
		}
		if err != nil {
			return err
		}
		if !o.Existed {
			return inUse(h.Remove(ctx, path))
		}
		there, err := host.Exists(ctx, h, path)
		if err != nil {
			return err
		}
		if same, err := prev.same(ctx, h, e, path, there); err != nil {
			return err
		} else if same {
			return h.SetAccess(ctx, path, prev.Access)
		}
		opt := host.WriteOptions{Access: prev.Access}
		if prev.SHA256 == "" {
			return inUse(h.WriteFile(ctx, path, strings.NewReader(string(prev.Content)), opt))
		}
		opt.SHA256 = prev.SHA256
		rc, err := h.Open(ctx, prev.kept(e))
		if err != nil {
			return err
		}
		defer rc.Close()
		return inUse(h.WriteFile(ctx, path, rc, opt))
	}
	return undo{look, do}, err
}

// same tells whether the file holds what it held before.
func (p previousFile) same(ctx context.Context, r host.Reader, e *Env, path string, there bool) (bool, error) {
	if !there {
		return false, nil
	}
	if p.SHA256 != "" {
		have, err := e.fileDigest(ctx, r, path)
		return have == p.SHA256, err
	}
	have, err := host.ReadFile(ctx, r, path, maxInline)
	return err == nil && have != nil && !have.Truncated && string(have.Content) == string(p.Content), err
}

// kept is where the earlier content lies that does not fit into the record.
func (p previousFile) kept(e *Env) string {
	return host.Join(e.Facts.OS, previousDir(e.Facts), p.SHA256)
}

// inUse says what to do about a program that still runs though its service is gone.
func inUse(err error) error {
	if !errors.Is(err, host.ErrBusy) {
		return err
	}
	return &Error{Code: CodeFailed, Summary: "a program still runs", Detail: err.Error(),
		Remedy: "containers outlive the services that started them: end them, or restart the machine; then leave again, it goes on from here"}
}

// undoDirectory removes a folder that nodejoin made, if nothing is left in it, or gives
// back the access of one that was there.
func undoDirectory(path string, o Owned) (undo, error) {
	prev, err := previous[previousFile](o)
	return undo{
		look: func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
			fi, err := r.Stat(ctx, path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return Change{}, "", nil
			case err != nil:
				return Change{}, "", err
			case !fi.Dir:
				return Change{}, "a file is in its place now", nil
			case o.Existed:
				if prev.Access == fi.Access {
					return Change{}, "", nil
				}
				return restored(Diff{Name: "access", Have: accessText(fi.Access), Want: accessText(prev.Access)}), "", nil
			}
			others, err := e.others(ctx, r, path)
			if err != nil {
				return Change{}, "", err
			}
			if len(others) > 0 {
				return Change{}, "it holds what is not nodejoin's: " + some(others), nil
			}
			return Change{Action: ActionDelete}, "", nil
		},
		do: func(ctx context.Context, h host.Host, _ *Env) error {
			if o.Existed {
				return h.SetAccess(ctx, path, prev.Access)
			}
			return h.Remove(ctx, path)
		},
	}, err
}

// others are what stays in a folder when leave has removed what it is going to, a folder
// of ours with others in it too.
func (e *Env) others(ctx context.Context, r host.Reader, dir string) ([]string, error) {
	list, err := r.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range list {
		path := host.Join(e.Facts.OS, dir, entry.Name)
		stays := !e.goes(path)
		if !stays && entry.Dir && !entry.Elsewhere && !e.goesWhole(path) {
			below, err := e.others(ctx, r, path)
			if err != nil {
				return nil, err
			}
			stays = len(below) > 0
		}
		if stays {
			out = append(out, entry.Name)
		}
	}
	return out, nil
}

// some names the first few of a list.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// undoMade removes what a program of ours has made, with everything in it. Links are
// not followed, and what is mounted there is taken off and stays as it is.
func undoMade(path string, o Owned) (undo, error) {
	return undo{
		look: func(ctx context.Context, r host.Reader, e *Env) (Change, string, error) {
			there, err := host.Exists(ctx, r, path)
			if err != nil || !there {
				return Change{}, "", err
			}
			theirs, err := e.broughtBack(ctx, r, path)
			switch {
			case err != nil || theirs:
				return Change{}, "", err
			case o.Existed:
				return Change{}, "it was there before nodejoin", nil
			}
			return Change{Action: ActionDelete}, "", nil
		},
		do: func(ctx context.Context, h host.Host, e *Env) error {
			// A volume that a kubelet has left mounted is nobody's to empty.
			mounts, err := h.Mounts(ctx, path)
			if err != nil {
				return err
			}
			for _, at := range slices.Backward(mounts) {
				if err := inUse(h.Unmount(ctx, at)); err != nil {
					return err
				}
			}
			return removeTree(ctx, h, e.Facts.OS, path)
		},
	}, nil
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
