package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// smallFile: up to this size a file is hashed every time (bytes).
const smallFile = 1 << 20

// Digest is the sha256 of a file in lower-case hex. A large file that is, by size,
// time and ID, the very one that was hashed before is not read again.
func (e *Env) Digest(ctx context.Context, r host.Reader, path string) (string, error) {
	fi, err := r.Stat(ctx, path)
	if err != nil {
		return "", err
	}
	if fi.Dir {
		return "", fmt.Errorf("%s: %w", path, host.ErrDirectory)
	}
	key := host.PathKey(e.Facts.OS, path)
	if s, ok := e.Record.Digests[key]; ok && fi.Size > smallFile && s.Size == fi.Size && s.ModTime.Equal(fi.ModTime) &&
		s.ID == fi.ID {
		return s.SHA256, nil
	}
	rc, err := r.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	h, buf := sha256.New(), make([]byte, min(max(fi.Size, 0)+512, 256<<10)) // most files are small
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{rc}, buf); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if fi.Size > smallFile {
		e.Record.Digests[key] = record.Stamp{Size: fi.Size, ModTime: fi.ModTime, ID: fi.ID, SHA256: sum}
	}
	return sum, nil
}

// AbsentFile stands for the digest of a file that is not there.
const AbsentFile = "absent"

// Fingerprint is a digest over what a service is started from: its registered
// command, environment and the content of the watched files, as it is or, in a
// plan, as earlier steps will leave it. A watched file that is missing is part of it.
func (e *Env) Fingerprint(ctx context.Context, r host.Reader, c host.ServiceConfig, watch []string) (string, error) {
	h := sha256.New()
	for _, s := range c.Command {
		fmt.Fprintf(h, "arg %q\n", s)
	}
	for _, s := range c.Environment {
		fmt.Fprintf(h, "env %q\n", s)
	}
	for _, p := range slices.Sorted(slices.Values(watch)) {
		d, known := e.FutureDigest(p)
		if !known {
			var err error
			if d, err = e.Digest(ctx, r, p); errors.Is(err, fs.ErrNotExist) {
				d = AbsentFile
			} else if err != nil {
				return "", err
			}
		}
		fmt.Fprintf(h, "file %q %s\n", p, d)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Stamp notes the digest of a file just written, so that a later check need not read it.
func (e *Env) Stamp(ctx context.Context, r host.Reader, path, sha256 string) error {
	fi, err := r.Stat(ctx, path)
	if err != nil {
		return err
	}
	e.Record.Digests[host.PathKey(e.Facts.OS, path)] = record.Stamp{Size: fi.Size, ModTime: fi.ModTime, ID: fi.ID,
		SHA256: sha256}
	return nil
}

// FileDigest is Env.Digest with "" for a file that is not there.
func (e *Env) FileDigest(ctx context.Context, r host.Reader, path string) (string, error) {
	d, err := e.Digest(ctx, r, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return d, err
}
