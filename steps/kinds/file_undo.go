package kinds

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// claimFile notes that path, and the folders above it that are missing, are about to
// be made or changed, with what the file held before. Secret contents and those of
// private files go to record.PreviousDir alone.
func claimFile(ctx context.Context, h host.Host, e *steps.Env, path string, secret bool) error {
	c := record.New{Key: record.File.Of(path)}
	if have, ok := e.Record.Lookup(c.Key); ok && !have.Undone && !e.Record.Snapshot.Wants(c.Key) {
		return nil
	}
	fi, err := h.Stat(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parents, err := e.Parents(ctx, h, path)
		if err != nil {
			return err
		}
		return e.Claim(ctx, h, append(parents, c)...)
	case err != nil:
		return err
	}
	prev := record.PreviousFile{Size: fi.Size, Access: fi.Access}
	if fi.Size <= maxInline && !secret && fi.Access != host.AccessPrivate {
		have, err := host.ReadFile(ctx, h, path, maxInline)
		if err != nil {
			return err
		}
		if have != nil && !have.Truncated {
			prev.Content, prev.Size = have.Content, int64(len(have.Content))
			c.Previous = prev
			return e.Claim(ctx, h, c)
		}
	}
	if prev.SHA256, err = record.StoreFile(ctx, h, e.Facts, path); err != nil {
		return err
	}
	if e.Facts.OS == "windows" && prev.Access == host.AccessPrivate {
		// It may have that of its folder, which comes back by itself with the folder's.
		dir, err := h.Stat(ctx, host.Dir(e.Facts.OS, path))
		if err != nil {
			return err
		}
		if dir.Access == host.AccessPrivate {
			prev.Access = host.AccessDefault
		}
	}
	c.Previous = prev
	return e.Claim(ctx, h, c)
}

// maxInline is the size up to which the earlier content of a file stands in the record
// itself (bytes).
const maxInline = 64 << 10

// undoFile removes a file that nodejoin made, or restores its earlier content and access.
// It removes what an interrupted write left beside the file, too.
func undoFile(key record.Key, claim record.Claim) (steps.Undoing, error) {
	path := key.Name
	prev, err := record.Previous[record.PreviousFile](claim)
	check := func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
		temp, err := host.Exists(ctx, r, host.TempName(path))
		if err != nil {
			return steps.Change{}, "", err
		}
		fi, err := r.Stat(ctx, path)
		there := err == nil
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return steps.Change{}, "", err
		case there && fi.Dir:
			return steps.Change{}, "a directory is in its place now", nil
		case !claim.Existed && !there && !temp:
			return steps.Change{}, "", nil
		case !claim.Existed:
			return steps.Change{Action: steps.ActionDelete}, "", nil
		}
		same, err := holdsPrevious(ctx, r, e, prev, path, there)
		switch {
		case err != nil:
			return steps.Change{}, "", err
		case same && len(accessDiff(e.Facts.OS, fi.Access, prev.Access)) == 0 && !temp:
			return steps.Change{}, "", nil
		case !same && prev.SHA256 != "":
			stored, err := e.FileDigest(ctx, r, record.BlobPath(e.Facts, prev.SHA256))
			if err != nil {
				return steps.Change{}, "", err
			}
			if stored != prev.SHA256 {
				return steps.Change{}, "its earlier content is not in nodejoin's folder any more; the file stays as it is", nil
			}
		}
		return steps.Restored(), "", nil
	}
	apply := func(ctx context.Context, h host.Host, e *steps.Env) error {
		temp, err := host.Exists(ctx, h, host.TempName(path))
		if err == nil && temp {
			err = h.Remove(ctx, host.TempName(path))
		}
		if err != nil {
			return err
		}
		if !claim.Existed {
			return steps.InUse(h.Remove(ctx, path))
		}
		there, err := host.Exists(ctx, h, path)
		if err != nil {
			return err
		}
		if same, err := holdsPrevious(ctx, h, e, prev, path, there); err != nil {
			return err
		} else if same {
			return h.SetAccess(ctx, path, prev.Access)
		}
		opt := host.WriteOptions{Access: prev.Access}
		if prev.SHA256 == "" {
			return steps.InUse(h.WriteFile(ctx, path, strings.NewReader(string(prev.Content)), opt))
		}
		opt.SHA256 = prev.SHA256
		rc, err := h.Open(ctx, record.BlobPath(e.Facts, prev.SHA256))
		if err != nil {
			return err
		}
		defer rc.Close()
		return steps.InUse(h.WriteFile(ctx, path, rc, opt))
	}
	return steps.Undoing{Check: check, Apply: apply}, err
}

// holdsPrevious reports whether the file holds what it held before.
func holdsPrevious(ctx context.Context, r host.Reader, e *steps.Env, p record.PreviousFile, path string, there bool) (bool, error) {
	if !there {
		return false, nil
	}
	if p.SHA256 != "" {
		have, err := e.FileDigest(ctx, r, path)
		return have == p.SHA256, err
	}
	have, err := host.ReadFile(ctx, r, path, maxInline)
	return err == nil && have != nil && !have.Truncated && string(have.Content) == string(p.Content), err
}
