package kinds

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var directoryKind = steps.Kind{Name: "directory", Place: steps.OnHost, Image: true,
	Doc: "a directory, with its missing parents; on Windows only administrators may change a new one, and what is " +
		"made in it inherits as usual",
	Undo: map[record.Prefix]steps.Undo{record.Directory: {Called: "folder", New: undoDirectory,
		Removes:  steps.RemovesItself,
		Snapshot: steps.SnapshotInline, Holds: holdsPath}},
	New:   func() any { return &Directory{} },
	Fresh: func(step any) record.Ahead { return record.Ahead{Key: step.(*Directory).thing("").Key} },
	Makes: steps.Makes((*Directory).thing), Render: steps.RendersInto("directories.json")}

// Directory is a directory that exists with the wanted access.
type Directory struct {
	Path   string      `json:"path" doc:"absolute path" id:"true" path:"true"`
	Access host.Access `json:"access,omitempty" doc:"\"private\": only the system and administrators" choices:"private"`
	// Closed are files in it that are private, where they are there and nodejoin or a program of its made them.
	Closed []string `json:"closed,omitempty" lang:"-"`
}

func (d *Directory) thing(string) steps.Thing {
	return steps.Thing{Key: record.Directory.Of(d.Path), Words: "the folder " + d.Path}
}

func (d *Directory) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	fi, err := r.Stat(ctx, d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return steps.Change{Action: steps.ActionCreate, Touches: []steps.Touch{{Path: d.Path}}}, wayFree(ctx, r, e, d.Path)
	case err != nil:
		return steps.Change{}, err
	case !fi.Dir && goesBefore(e, record.File, d.Path):
		return steps.Change{Action: steps.ActionCreate, Reason: "in place of the file that goes",
			Touches: []steps.Touch{{Path: d.Path}}}, nil
	case !fi.Dir:
		return steps.Change{}, &host.Error{Op: "make folder", Subject: d.Path, Err: host.ErrFile}
	}
	var c steps.Change
	if d.Access == host.AccessPrivate && fi.Access != host.AccessPrivate {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "access", Have: "open to others", Want: "private"})
	}
	if d.loosened(fi, e) {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "access", Have: accessText(accessWritable),
			Want: accessText(d.Access)})
	}
	open, err := d.open(ctx, r, e)
	for _, path := range open {
		c.Diffs = append(c.Diffs, steps.Diff{Name: "access of " + path, Have: "open to others", Want: "private"})
	}
	if len(c.Diffs) > 0 {
		c.Action = steps.ActionUpdate
	}
	return c, err
}

// loosened reports whether others may write since in a folder that nodejoin made.
func (d *Directory) loosened(fi host.FileInfo, e *steps.Env) bool {
	return d.Access != host.AccessPrivate && fi.Writable && steps.Created(e, record.Directory.Of(d.Path))
}

// open are the files of Closed that are not private.
func (d *Directory) open(ctx context.Context, r host.Reader, e *steps.Env) (out []string, err error) {
	for _, path := range d.Closed {
		fi, err := r.Stat(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ours := host.Within(e.Facts.OS, e.Facts.DataDir, path) ||
			steps.Created(e, record.ProgramData.Of(path), record.File.Of(path))
		if ours && fi.Access != host.AccessPrivate {
			out = append(out, path)
		}
	}
	return out, nil
}

func (d *Directory) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	if err := d.claim(ctx, h, e); err != nil {
		return steps.Outcome{}, err
	}
	if err := h.Mkdir(ctx, d.Path, d.Access); err != nil {
		return steps.Outcome{}, err
	}
	fi, err := h.Stat(ctx, d.Path)
	if err == nil && d.loosened(fi, e) {
		err = h.SetAccess(ctx, d.Path, d.Access)
	}
	if err != nil {
		return steps.Outcome{}, err
	}
	open, err := d.open(ctx, h, e)
	for _, path := range open {
		err = errors.Join(err, h.SetAccess(ctx, path, host.AccessPrivate))
	}
	return steps.Outcome{}, err
}

// claim notes the folder with those above it that are missing, or the access that it had.
func (d *Directory) claim(ctx context.Context, h host.Host, e *steps.Env) error {
	if host.Within(e.Facts.OS, e.Facts.DataDir, d.Path) {
		return nil // nodejoin's own folder, which leave removes in any case
	}
	own := record.New{Key: record.Directory.Of(d.Path)}
	fi, err := h.Stat(ctx, d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		parents, err := e.Parents(ctx, h, d.Path)
		if err != nil {
			return err
		}
		return e.Claim(ctx, h, append(parents, own)...)
	}
	if err != nil {
		return err
	}
	own.Previous = record.PreviousFile{Access: fi.Access}
	return e.Claim(ctx, h, own)
}

// paths are the prefixes of claims that are named by a path.
var paths = []record.Prefix{record.File, record.Directory, record.ProgramData, sourceVIPPrefix, record.EnvFile}

// holdsPath is Undo.Holds of a folder.
func holdsPath(e *steps.Env, name string, key record.Key) bool {
	path := key.Name
	switch key.Prefix {
	case record.Env:
		path = path[:max(0, strings.LastIndexByte(path, ':'))]
	case record.Namespaces:
		path = netnsDir
	case record.Backup:
	default:
		// A file of the same path takes the folder's place.
		if !slices.Contains(paths, key.Prefix) || key.Prefix == record.File && host.SamePath(e.Facts.OS, name, path) {
			return false
		}
	}
	return path != "" && host.Within(e.Facts.OS, name, path)
}

// undoDirectory removes a folder that nodejoin made, if nothing is left in it, or restores
// the access of one that was there.
func undoDirectory(key record.Key, claim record.Claim) (steps.Undoing, error) {
	path := key.Name
	prev, err := record.Previous[record.PreviousFile](claim)
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			fi, err := r.Stat(ctx, path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return steps.Change{}, "", nil
			case err != nil:
				return steps.Change{}, "", err
			case !fi.Dir:
				return steps.Change{}, "a file is in its place now", nil
			case claim.Existed:
				if prev.Access == fi.Access {
					return steps.Change{}, "", nil
				}
				return steps.Restored(steps.Diff{Name: "access", Have: accessText(fi.Access),
					Want: accessText(prev.Access)}), "", nil
			}
			others, err := othersIn(ctx, r, e, path)
			if err != nil {
				return steps.Change{}, "", err
			}
			if len(others) > 0 {
				c, err := reopening(ctx, r, e, path, fi.Access)
				return c, "it holds what is not nodejoin's: " + steps.Some(others), err
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, e *steps.Env) error {
			if claim.Existed {
				return h.SetAccess(ctx, path, prev.Access)
			}
			others, err := othersIn(ctx, h, e, path)
			switch {
			case err != nil:
				return err
			case len(others) > 0:
				return reopen(ctx, h, e, path)
			}
			return h.Remove(ctx, path)
		},
	}, err
}

// reopening is the change of a folder that nodejoin made private and that stays, as it holds what is not nodejoin's:
// whoever put that there must not need to be an administrator to read it. One in a private folder is reopened with it.
func reopening(ctx context.Context, r host.Reader, e *steps.Env, path string, have host.Access) (
	steps.Change, error) {
	if have != host.AccessPrivate {
		return steps.Change{}, nil
	}
	above, err := r.Stat(ctx, host.Dir(e.Facts.OS, path))
	if err != nil || above.Access == host.AccessPrivate {
		return steps.Change{}, err
	}
	return steps.Change{Action: steps.ActionUpdate, Reason: "it stays, with the access of its parent folder",
		Diffs: []steps.Diff{{Name: "access", Have: accessText(have), Want: accessText(host.AccessDefault)}}}, nil
}

// reopen gives a folder, and those of nodejoin in it, the access of a folder that nobody has restricted.
func reopen(ctx context.Context, h host.Host, e *steps.Env, path string) error {
	for _, dir := range foldersMade(e, path) {
		fi, err := h.Stat(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && fi.Access != host.AccessPrivate {
			continue
		}
		if err == nil {
			err = h.SetAccess(ctx, dir, host.AccessDefault)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// foldersMade are the folders at path and below that nodejoin made, each after those above it.
func foldersMade(e *steps.Env, path string) (out []string) {
	for key, claim := range e.Record.Claims {
		if key.Prefix == record.Directory && !claim.Existed && host.Within(e.Facts.OS, path, key.Name) {
			out = append(out, key.Name)
		}
	}
	slices.Sort(out)
	return out
}

// othersIn are the entries of a folder that stay when leave has removed what it will, also
// folders of ours that hold such entries.
func othersIn(ctx context.Context, r host.Reader, e *steps.Env, dir string) ([]string, error) {
	list, err := r.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range list {
		path := host.Join(e.Facts.OS, dir, entry.Name)
		removal := e.Removes(path)
		stays := removal == steps.RemovesNothing
		if removal == steps.RemovesPath && entry.Dir && !entry.Elsewhere {
			below, err := othersIn(ctx, r, e, path)
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
