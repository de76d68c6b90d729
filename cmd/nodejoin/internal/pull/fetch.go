package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"nodejoin/steps/artifact"
)

// fetching reads what is fetched, and marks its errors as such.
type fetching struct{ io.Reader }

func (r fetching) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &fetchedError{err}
	}
	return n, err
}

// release fetches the release of the plan, and verifies it. by names who signed it.
func (f *File) release(ctx context.Context, store *artifact.Store) (r Release, by string, err error) {
	if err := closed(f.path); err != nil {
		return r, "", &ownError{err}
	}
	trusted, err := readTrusted(f.Signers, f.Sigstore, readClosed)
	if err != nil {
		return r, "", &ownError{err}
	}
	src, err := f.source()
	if err != nil {
		return r, "", err
	}
	if ctx, err = f.withLogin(ctx); err != nil {
		return r, "", err
	}
	in, _, err := store.Open(ctx, src)
	if err != nil {
		return r, "", &fetchedError{err}
	}
	b, err := io.ReadAll(io.LimitReader(in, maxRelease+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return r, "", &fetchedError{err}
	}
	if len(b) > maxRelease {
		return r, "", fmt.Errorf("the release at %s has more than %d bytes; it is something else", f.place(),
			maxRelease)
	}
	if r, by, err = open(b, trusted, time.Now()); err != nil {
		return r, "", fmt.Errorf("the release at %s: %w", f.place(), err)
	}
	if r.Plan != f.Plan {
		return r, "", fmt.Errorf("the release at %s is of the plan %q, and this node follows %q", f.place(),
			r.Plan, f.Plan)
	}
	return r, by, nil
}

// fetch gets the bundle of a release into a folder, unless an earlier round has. What is cut or has other bytes is not
// the bundle.
func (f *File) fetch(ctx context.Context, store *artifact.Store, r Release, folder string) (string, error) {
	to := filepath.Join(folder, "bundle.tar")
	if have, _, err := digestOf(to); err == nil && have == r.SHA256 {
		return to, nil
	}
	src, err := f.bundle(r)
	if err != nil {
		return "", err
	}
	if ctx, err = f.withLogin(ctx); err != nil {
		return "", err
	}
	in, _, err := store.Open(ctx, src)
	if err != nil {
		return "", &fetchedError{err}
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", &ownError{err}
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(fetching{in}, r.Size+1))
	if closed := out.Close(); err == nil {
		err = closed
	}
	switch have := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return "", &ownError{err}
	case n < r.Size:
		return "", &fetchedError{fmt.Errorf("the bundle of release %d is cut: %d of %d bytes", r.Serial, n, r.Size)}
	case n > r.Size || have != r.SHA256:
		return "", fmt.Errorf("the bundle of release %d is another file than was signed", r.Serial)
	}
	if err := os.Rename(to+".part", to); err != nil {
		return "", &ownError{err}
	}
	return to, nil
}
