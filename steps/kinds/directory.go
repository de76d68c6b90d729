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

var directoryKind = steps.Kind{Name: "directory", Place: steps.OnHost,
	Doc: "a directory, with its missing parents; on Windows only administrators may change a new one, and what is " +
		"made in it inherits as usual",
	Undo: map[record.Prefix]steps.Undo{record.Directory: {Called: "folder", New: undoDirectory,
		Removes:  steps.RemovesItself,
		Snapshot: steps.SnapshotInline, Holds: holdsPath}},
	New:   func() any { return &Directory{} },
	Makes: steps.Makes((*Directory).thing), Render: steps.RendersInto("directories.json")}

// Directory is a directory that exists with the wanted access.
type Directory struct {
	Path   string      `json:"path" doc:"absolute path" id:"true" path:"true"`
	Access host.Access `json:"access,omitempty" doc:"\"private\": only the system and administrators" choices:"private"`
}

func (d *Directory) thing(string) steps.Thing {
	return steps.Thing{Key: record.Directory.Of(d.Path), Words: "the folder " + d.Path}
}

func (d *Directory) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	fi, err := r.Stat(ctx, d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return steps.Change{Action: steps.ActionCreate, Touches: []steps.Touch{{Path: d.Path}}}, nil
	case err != nil:
		return steps.Change{}, err
	case !fi.Dir:
		return steps.Change{}, &steps.Error{Code: steps.CodeInvalid, Summary: "a file is in the way",
			Detail: d.Path + " exists and is not a directory",
			Remedy: "move the file away, or use another path"}
	case d.Access == host.AccessPrivate && fi.Access != host.AccessPrivate:
		return steps.Change{Action: steps.ActionUpdate,
			Diffs: []steps.Diff{{Name: "access", Have: "open to others", Want: "private"}}}, nil
	}
	return steps.Change{}, nil
}

func (d *Directory) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	if err := d.claim(ctx, h, e); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, h.Mkdir(ctx, d.Path, d.Access)
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
		if !slices.Contains(paths, key.Prefix) {
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
				return steps.Change{}, "it holds what is not nodejoin's: " + steps.Some(others), nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			if claim.Existed {
				return h.SetAccess(ctx, path, prev.Access)
			}
			return h.Remove(ctx, path)
		},
	}, err
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
