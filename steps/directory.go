package steps

import (
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps/host"
)

var directoryKind = Kind{Name: "directory", Place: OnHost, Doc: "a directory, with its missing parents",
	New: func() any { return &Directory{} }}

// Directory is a directory that exists with the wanted access.
type Directory struct {
	Path   string      `json:"path" doc:"absolute path"`
	Access host.Access `json:"access,omitempty" doc:"\"private\": only the system and administrators"`
}

func (d *Directory) Check(ctx context.Context, r host.Reader, e *Env) (Change, error) {
	fi, err := r.Stat(ctx, d.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Change{Action: ActionCreate, Touches: []string{d.Path}}, nil
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
	if c.Action == ActionCreate {
		if err := e.Claim(ctx, h, "directory:"+d.Path, nil); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{}, h.Mkdir(ctx, d.Path, d.Access)
}
