package kinds

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// claimFile notes that path, and the folders above it that are missing, are about to
// be made or changed, with what the file held before. Secret contents and those of
// private files go to record.PreviousDir alone.
func claimFile(ctx context.Context, h host.Host, e *steps.Env, path string, secret bool) error {
	claims, err := fileClaims(ctx, h, e, path, secret)
	if err != nil {
		return err
	}
	return e.Claim(ctx, h, claims...)
}

// fileClaims are the claims of claimFile.
func fileClaims(ctx context.Context, h host.Host, e *steps.Env, path string, secret bool) ([]record.New, error) {
	c := record.New{Key: record.File.Of(path)}
	if have, ok := e.Record.Lookup(c.Key); ok && !have.Undone && !e.Record.Snapshot.Wants(c.Key) {
		return []record.New{c}, nil
	}
	prev, err := previousFile(ctx, h, e, path, secret)
	switch {
	case err != nil:
		return nil, err
	case prev == nil || steps.Created(e, record.ProgramData.Of(path)): // not there before a program of nodejoin's
		parents, err := e.Parents(ctx, h, path)
		return append(parents, c), err
	}
	c.Previous = *prev
	return []record.New{c}, nil
}

// previousFile is the state of a file that undoFile restores; nil = there is none.
func previousFile(ctx context.Context, h host.Host, e *steps.Env, path string, secret bool) (
	*record.PreviousFile, error) {
	fi, err := h.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	prev := &record.PreviousFile{Size: fi.Size, Access: fi.Access}
	if fi.Size <= maxInline && !secret && fi.Access != host.AccessPrivate {
		have, err := host.ReadFile(ctx, h, path, maxInline)
		if err != nil {
			return nil, err
		}
		if have != nil && !have.Truncated {
			prev.Content, prev.Size = have.Content, int64(len(have.Content))
			return prev, nil
		}
	}
	if prev.SHA256, err = record.StoreFile(ctx, h, e.Facts, path); err != nil {
		return nil, err
	}
	if e.Facts.OS == "windows" && prev.Access == host.AccessPrivate {
		// It may have that of its folder, which comes back by itself with the folder's.
		dir, err := h.Stat(ctx, host.Dir(e.Facts.OS, path))
		if err != nil {
			return nil, err
		}
		if dir.Access == host.AccessPrivate {
			prev.Access = host.AccessDefault
		}
	}
	return prev, nil
}

// maxInline is the size up to which the earlier content of a file stands in the record
// itself (bytes).
const maxInline = 64 << 10

// filesUndo is the undo of files that nodejoin made or changed.
var filesUndo = steps.Undo{Called: "file", New: undoFile, Removes: steps.RemovesItself,
	Snapshot: steps.SnapshotInline, Now: fileNow,
	Store: storeFile}

// fileNow is the digest of what a file holds.
func fileNow(ctx context.Context, r host.Reader, e *steps.Env, key record.Key, _ record.Claim) (any, error) {
	fi, err := r.Stat(ctx, key.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case fi.Dir:
		return "a directory", nil
	}
	return e.Digest(ctx, r, key.Name)
}

// storeFile is the state of a file in a form that undoFile restores.
func storeFile(ctx context.Context, h host.Host, e *steps.Env, key record.Key, _ record.Claim) (any, error) {
	prev, err := previousFile(ctx, h, e, key.Name, true)
	if prev == nil {
		return nil, err
	}
	return *prev, err
}

// undoFile removes a file that nodejoin made, or restores its earlier content and access.
// It removes what an interrupted write left beside the file, too.
func undoFile(key record.Key, claim record.Claim) (steps.Undoing, error) {
	prev, err := record.Previous[record.PreviousFile](claim)
	u := fileUndo{path: key.Name, existed: claim.Existed, prev: prev}
	return steps.Undoing{Check: u.check, Apply: u.apply}, err
}

// fileUndo is the undoing of one claimed file.
type fileUndo struct {
	path    string
	existed bool
	prev    record.PreviousFile
}

func (u fileUndo) check(ctx context.Context, r host.Reader, e *steps.Env) (c steps.Change, left string, err error) {
	temps, err := tempsOf(ctx, r, u.path)
	if err != nil {
		return steps.Change{}, "", err
	}
	temp := len(temps) > 0
	fi, err := r.Stat(ctx, u.path)
	there := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return steps.Change{}, "", err
	case there && fi.Dir:
		return steps.Change{}, "a directory is in its place now", nil
	case u.existed:
		return u.checkRestored(ctx, r, e, fi, there, temp)
	case there || temp:
		return steps.Change{Action: steps.ActionDelete}, "", nil
	}
	return steps.Change{}, "", nil
}

// tempsOf are what interrupted writes left beside a file: of the file, or of one that was to be renamed to it.
func tempsOf(ctx context.Context, r host.Reader, path string) (there []string, err error) {
	temp := host.TempName(path)
	for _, p := range []string{temp, host.TempName(temp)} {
		ok, err := host.Exists(ctx, r, p)
		if err != nil {
			return nil, err
		}
		if ok {
			there = append(there, p)
		}
	}
	return there, nil
}

func removeTemps(ctx context.Context, h host.Host, path string) error {
	temps, err := tempsOf(ctx, h, path)
	for _, p := range temps {
		if err == nil {
			err = h.Remove(ctx, p)
		}
	}
	return err
}

// checkRestored is check for a file that was there before nodejoin.
func (u fileUndo) checkRestored(ctx context.Context, r host.Reader, e *steps.Env, fi host.FileInfo, there, temp bool) (
	c steps.Change, left string, err error) {
	same, err := u.holdsPrevious(ctx, r, e, there)
	switch {
	case err != nil:
		return steps.Change{}, "", err
	case same && !temp && len(accessDiff(e.Facts.OS, fi.Access, u.prev.Access)) == 0:
		return steps.Change{}, "", nil
	case !same && u.prev.SHA256 != "":
		stored, err := e.FileDigest(ctx, r, record.BlobPath(e.Facts, u.prev.SHA256))
		if err != nil {
			return steps.Change{}, "", err
		}
		if stored != u.prev.SHA256 {
			return steps.Change{}, "its earlier content is not in nodejoin's folder any more; the file stays as it is", nil
		}
	}
	return steps.Restored(), "", nil
}

func (u fileUndo) apply(ctx context.Context, h host.Host, e *steps.Env) error {
	if err := removeTemps(ctx, h, u.path); err != nil {
		return err
	}
	if !u.existed {
		return steps.InUse(h.Remove(ctx, u.path))
	}
	there, err := host.Exists(ctx, h, u.path)
	if err != nil {
		return err
	}
	same, err := u.holdsPrevious(ctx, h, e, there)
	switch {
	case err != nil:
		return err
	case same:
		return h.SetAccess(ctx, u.path, u.prev.Access)
	}
	err = u.write(ctx, h, e)
	if _, apart := e.Record.Lookup(processesPrefix.Of(u.path)); apart && errors.Is(err, host.ErrBusy) {
		if err = outOfTheWay(ctx, h, u.path); err == nil {
			err = u.write(ctx, h, e)
		}
	}
	return steps.InUse(err)
}

// write puts the earlier content in place.
func (u fileUndo) write(ctx context.Context, h host.Host, e *steps.Env) error {
	opt := host.WriteOptions{Access: u.prev.Access}
	if u.prev.SHA256 == "" {
		return h.WriteFile(ctx, u.path, bytes.NewReader(u.prev.Content), opt)
	}
	opt.SHA256 = u.prev.SHA256
	rc, err := h.Open(ctx, record.BlobPath(e.Facts, u.prev.SHA256))
	if err != nil {
		return err
	}
	defer rc.Close()
	return h.WriteFile(ctx, u.path, rc, opt)
}

// holdsPrevious reports whether the file holds what it held before.
func (u fileUndo) holdsPrevious(ctx context.Context, r host.Reader, e *steps.Env, there bool) (bool, error) {
	if !there {
		return false, nil
	}
	if u.prev.SHA256 != "" {
		have, err := e.FileDigest(ctx, r, u.path)
		return have == u.prev.SHA256, err
	}
	have, err := host.ReadFile(ctx, r, u.path, maxInline)
	return err == nil && have != nil && !have.Truncated && bytes.Equal(have.Content, u.prev.Content), err
}

// accessDiff compares access. On Windows only private counts: what a parent gives
// may itself be private, and "program" is the same as the default there.
func accessDiff(os string, have, want host.Access) []steps.Diff {
	differs := have != want
	if os == "windows" {
		differs = want == host.AccessPrivate && have != want
	}
	if !differs {
		return nil
	}
	return []steps.Diff{{Name: "access", Have: accessText(have), Want: accessText(want)}}
}

// accessNow is the access of a file or folder as a check sees it. That others may write it counts where nodejoin has
// set its mode.
func accessNow(e *steps.Env, key record.Key, access host.Access, writable bool) host.Access {
	if c, ours := e.Record.Lookup(key); writable && ours && !c.Undone {
		return accessWritable
	}
	return access
}

// accessWritable stands for an access that no step gives.
const accessWritable host.Access = "writable by others"

func accessText(a host.Access) string {
	if a == host.AccessDefault {
		return "default"
	}
	return string(a)
}
