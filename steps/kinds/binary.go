package kinds

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var binaryKind = steps.Kind{Name: "binary", Place: steps.OnHost, Image: true,
	Doc: "one downloaded file, verified by digest",
	New: func() any { return &Binary{} },
	Undo: map[record.Prefix]steps.Undo{processesPrefix: {Called: "processes of", New: undoProcesses,
		Order: steps.UndoOfPrograms, Snapshot: steps.SnapshotNone, Means: "they end"}},
	Makes: steps.Makes((*Binary).thing), Claims: steps.Claims((*Binary).claims),
	Installs: steps.Installs(func(b *Binary) steps.Source { return b.Source }),
	Render:   steps.RendersInto(artifactList)}

// Binary is one file fetched from an artifact source.
type Binary struct {
	steps.Source
	Path   string      `json:"path" doc:"absolute path of the file" id:"true" path:"true"`
	Access host.Access `json:"access,omitempty" doc:"as for file; default \"program\"" choices:"private,program"`
	// Services run from the file; they are stopped, processes gone, before an
	// existing one is replaced. Their service steps start them again.
	Services []string `json:"services,omitempty" doc:"services to stop before the file is replaced"`
	// Apart: processes run from it that are no service. They end before it is replaced or removed; one that replaces
	// its own program goes on, with the file renamed to host.OldName.
	Apart bool `json:"apart,omitempty" lang:"-"`
}

func (b *Binary) thing(string) steps.Thing {
	return steps.Thing{Key: record.File.Of(b.Path), Words: "the file " + b.Path}
}

// claims are the file and, where they are no service, the processes that run from it.
func (b *Binary) claims(e *steps.Env) []record.Key {
	out := []record.Key{b.thing(e.Facts.OS).Key}
	if b.Apart {
		out = append(out, processesPrefix.Of(b.Path))
	}
	return out
}

// claim notes what claims names.
func (b *Binary) claim(ctx context.Context, h host.Host, e *steps.Env) error {
	if err := claimFile(ctx, h, e, b.Path, false); err != nil || !b.Apart {
		return err
	}
	return e.Claim(ctx, h, record.New{Key: processesPrefix.Of(b.Path)})
}

func (b *Binary) access() host.Access {
	if b.Access == host.AccessDefault {
		return host.AccessProgram
	}
	return b.Access
}

func (b *Binary) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := validSource(b.Source); err != nil {
		return steps.Change{}, err
	}
	have, err := b.observe(ctx, r, e)
	if err != nil {
		return steps.Change{}, err
	}
	c := b.diff(have, e.Facts.OS)
	if have != nil {
		c = c.WrittenAt(have.modTime)
	}
	return c, nil
}

// binaryState is the file as observed; nil = not there.
type binaryState struct {
	digest  string // in the source's algorithm
	modTime time.Time
	access  host.Access
}

func (b *Binary) observe(ctx context.Context, r host.Reader, e *steps.Env) (*binaryState, error) {
	fi, err := r.Stat(ctx, b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if fi.Dir {
		return nil, &host.Error{Op: "read file", Subject: b.Path, Err: host.ErrDirectory}
	}
	s := &binaryState{modTime: fi.ModTime, access: accessNow(e, record.File.Of(b.Path), fi.Access, fi.Writable)}
	alg, want := b.Digest()
	if alg == "sha256" {
		s.digest, err = e.Digest(ctx, r, b.Path)
		return s, err
	}
	// The record knows the sha256 of the file that had the wanted sha512.
	if u, ok := e.Record.Archives[e.StepID]; ok && u.Digest == alg+":"+want && u.Files[b.Path] != "" {
		d, err := e.Digest(ctx, r, b.Path)
		if err != nil {
			return nil, err
		}
		if d == u.Files[b.Path] {
			s.digest = want
			return s, nil
		}
	}
	s.digest, err = host.HashFile(ctx, r, b.Path, steps.NewHash(alg))
	return s, err
}

// diff compares; have is nil when the file is not there.
func (b *Binary) diff(have *binaryState, os string) steps.Change {
	alg, want := b.Digest()
	var digests map[string]string
	if alg == "sha256" {
		digests = map[string]string{b.Path: want}
	}
	if have == nil {
		return steps.Change{Action: steps.ActionCreate, Diffs: []steps.Diff{{Name: alg, Want: want}},
			Touches: []steps.Touch{{Path: b.Path}}, Digests: digests, Blobs: blobs(b.Source)}
	}
	var c steps.Change
	if have.digest != want {
		c = steps.Change{Diffs: []steps.Diff{{Name: alg, Have: have.digest, Want: want}},
			Touches: []steps.Touch{{Path: b.Path}}, Digests: digests, Blobs: blobs(b.Source)}
		for _, s := range b.Services {
			c.Touches = append(c.Touches, steps.Touch{Service: s})
		}
	}
	if c.Diffs = append(c.Diffs, accessDiff(os, have.access, b.access())...); len(c.Diffs) > 0 {
		c.Action = steps.ActionUpdate
	}
	return c
}

func (b *Binary) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (steps.Outcome, error) {
	have, err := b.observe(ctx, h, e)
	if err != nil {
		return steps.Outcome{}, err
	}
	_, want := b.Digest()
	if err := b.claim(ctx, h, e); err != nil {
		return steps.Outcome{}, err
	}
	if have != nil && have.digest == want {
		return steps.Outcome{}, h.SetAccess(ctx, b.Path, b.access())
	}
	temp := host.TempName(b.Path)
	sum, err := b.stage(ctx, h, e, temp)
	if err != nil {
		discard(ctx, h, temp)
		return steps.Outcome{}, err
	}
	if err := stopUsers(ctx, h, e, b.Services); err != nil { // a deleted program may run all the same
		return steps.Outcome{}, err
	}
	if err := b.moveIn(ctx, h, temp); err != nil {
		return steps.Outcome{}, err
	}
	if alg, digest := b.Digest(); alg != "sha256" {
		e.SetArchive(record.Unpacked{Digest: alg + ":" + digest, Files: map[string]string{b.Path: sum}})
	}
	return steps.Outcome{}, e.Stamp(ctx, h, b.Path, sum)
}

// stage brings the verified bytes beside the file and gives their sha256. What an
// interrupted run has already verified there is taken as it is.
func (b *Binary) stage(ctx context.Context, h host.Host, e *steps.Env, temp string) (string, error) {
	if alg, want := b.Digest(); alg == "sha256" {
		if d, err := e.FileDigest(ctx, h, temp); err == nil && d == want {
			return d, h.SetAccess(ctx, temp, b.access())
		}
	}
	d, err := fetch(ctx, e, b.Source)
	if err != nil {
		return "", err
	}
	defer func() { _ = d.Close() }()
	if err := h.WriteFile(ctx, temp, d, host.WriteOptions{Access: b.access()}); err != nil {
		return "", err
	}
	// Whoever wrote it may not have read up to the end of the stream.
	return d.SHA256(), d.drain()
}

// moveIn renames the verified file to its place.
func (b *Binary) moveIn(ctx context.Context, h host.Host, temp string) error {
	if b.Apart {
		err := h.Rename(ctx, temp, b.Path)
		if !errors.Is(err, host.ErrBusy) {
			return err
		}
		if err := outOfTheWay(ctx, h, b.Path); err != nil {
			return err
		}
	}
	return moveIn(ctx, h, temp, b.Path)
}
