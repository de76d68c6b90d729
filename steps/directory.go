package steps

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps/host"
)

var directoryKind = Kind{Name: "directory", Place: OnHost, Doc: "a directory, with its missing parents; on Windows a new one is its administrators' to change, and what is made in it inherits as without it",
	New:   func() any { return &Directory{} },
	Makes: makes((*Directory).thing)}

// Directory is a directory that exists with the wanted access.
type Directory struct {
	Path   string      `json:"path" doc:"absolute path" id:"true" path:"true"`
	Access host.Access `json:"access,omitempty" doc:"\"private\": only the system and administrators" choices:"private"`
}

func (d *Directory) thing(string) Thing {
	return Thing{Key: "directory:" + d.Path, Words: "the folder " + d.Path}
}

func (d *Directory) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	fi, err := r.Stat(ctx, d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Change{Action: ActionCreate, Touches: []Touch{{Path: d.Path}}}, nil
	case err != nil:
		return Change{}, err
	case !fi.Dir:
		return Change{}, &Error{Code: CodeInvalid, Summary: "a file is in the way", Detail: d.Path + " exists and is no directory",
			Remedy: "move the file away, or use another path"}
	case d.Access == host.AccessPrivate && fi.Access != host.AccessPrivate:
		return Change{Action: ActionUpdate, Diffs: []Diff{{Name: "access", Have: "open to others", Want: "private"}}}, nil
	}
	return Change{}, nil
}

func (d *Directory) Apply(ctx context.Context, h host.Host, e *Env, c Change) (Outcome, error) {
	if err := d.claim(ctx, h, e); err != nil {
		return Outcome{}, err
	}
	return Outcome{}, h.Mkdir(ctx, d.Path, d.Access)
}

// claim notes the folder with those above it that are missing, or the access that it had.
func (d *Directory) claim(ctx context.Context, h host.Host, e *Env) error {
	if within(e.Facts.OS, e.Facts.DataDir, d.Path) {
		return nil // nodejoin's own folder, which leave removes in any case
	}
	own := claim{key: "directory:" + d.Path}
	fi, err := h.Stat(ctx, d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		parents, err := e.parents(ctx, h, d.Path)
		if err != nil {
			return err
		}
		return e.claim(ctx, h, append(parents, own)...)
	}
	if err != nil {
		return err
	}
	own.prev = previousFile{Access: fi.Access}
	return e.claim(ctx, h, own)
}
