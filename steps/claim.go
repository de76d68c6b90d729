package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"slices"

	"nodejoin/steps/host"
)

// previousDir holds the earlier contents of files that nodejoin replaced and that do
// not fit into the record: large ones, and those that others may not read. It is
// private, as the whole of nodejoin's folder. Each is named by its digest.
func previousDir(f host.Facts) string { return host.Join(f.OS, f.DataDir, "previous") }

// previousFile is the earlier state of a file, as the record keeps it.
type previousFile struct {
	Content []byte      `json:"content,omitempty"` // of a small file that others may read
	SHA256  string      `json:"sha256,omitempty"`  // of any other, which previousDir holds
	Size    int64       `json:"size"`
	Access  host.Access `json:"access,omitempty"`
}

// claimFile notes that path, and the folders above it that are missing, are about to
// be made or changed, and keeps what the file held before. Secret contents and those
// of private files go to previousDir alone.
func claimFile(ctx context.Context, h host.Host, e *Env, path string, secret bool) error {
	if e.Record.owns("file:"+path) && !e.Record.Trial.wants("file:"+path) {
		return nil
	}
	c := claim{key: "file:" + path}
	fi, err := h.Stat(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parents, err := e.parents(ctx, h, path)
		if err != nil {
			return err
		}
		return e.claim(ctx, h, append(parents, c)...)
	case err != nil:
		return err
	}
	prev := previousFile{Size: fi.Size, Access: fi.Access}
	if fi.Size <= maxInline && !secret && fi.Access != host.AccessPrivate {
		have, err := host.ReadFile(ctx, h, path, maxInline)
		if err != nil {
			return err
		}
		if have != nil && !have.Truncated {
			prev.Content, prev.Size = have.Content, int64(len(have.Content))
			c.prev = prev
			return e.claim(ctx, h, c)
		}
	}
	if prev.SHA256, err = keep(ctx, h, e, path); err != nil {
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
	c.prev = prev
	return e.claim(ctx, h, c)
}

// maxInline is the size up to which the earlier content of a file is kept in the
// record itself (bytes).
const maxInline = 64 << 10

// keep copies a file to previousDir and gives its digest.
func keep(ctx context.Context, h host.Host, e *Env, path string) (string, error) {
	if err := h.Mkdir(ctx, previousDir(e.Facts), host.AccessPrivate); err != nil {
		return "", err
	}
	sum, err := host.HashFile(ctx, h, path, sha256.New())
	if err != nil {
		return "", err
	}
	to := host.Join(e.Facts.OS, previousDir(e.Facts), sum)
	if have, err := e.fileDigest(ctx, h, to); err != nil || have == sum {
		return sum, err
	}
	rc, err := h.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	got := sha256.New()
	opt := host.WriteOptions{Access: host.AccessPrivate, SHA256: sum}
	if err := h.WriteFile(ctx, to, io.TeeReader(rc, got), opt); err != nil {
		return "", err
	}
	return hex.EncodeToString(got.Sum(nil)), nil
}

// parents are claims of the folders above path that are missing, the outermost first.
// Nodejoin's own folder is no claim: it goes last, whatever is in the record.
func (e *Env) parents(ctx context.Context, r host.Reader, path string) ([]claim, error) {
	missing, err := missingParents(ctx, r, e.Facts.OS, path)
	var out []claim
	for _, dir := range missing {
		if !within(e.Facts.OS, e.Facts.DataDir, dir) {
			out = append(out, claim{key: "directory:" + dir})
		}
	}
	return out, err
}

func missingParents(ctx context.Context, r host.Reader, os, path string) ([]string, error) {
	var out []string
	for dir := host.Dir(os, path); ; dir = host.Dir(os, dir) {
		_, err := r.Stat(ctx, dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		out = append(out, dir)
		if host.SamePath(os, host.Dir(os, dir), dir) {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}

// within tells whether path is dir or lies below it.
func within(os, dir, path string) bool {
	dir = host.PathKey(os, dir)
	for at := host.PathKey(os, path); ; {
		if at == dir {
			return true
		}
		up := host.PathKey(os, host.Dir(os, at))
		if up == at || len(up) >= len(at) {
			return false
		}
		at = up
	}
}

// claim is Record.claim for this step; with a trial open, what the claims are about to
// alter is kept too.
func (e *Env) claim(ctx context.Context, h host.Host, claims ...claim) error {
	forget, err := e.keep(ctx, h, claims)
	if err != nil {
		return err
	}
	err = e.Record.claim(ctx, h, e.Facts, e.StepID, forget != nil, claims...)
	if err != nil && forget != nil {
		forget()
	}
	return err
}
