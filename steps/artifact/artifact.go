// Package artifact fetches artifacts and unpacks archives. It is the implementation of steps.Artifacts and
// the only importer of the archive library.
//
// It verifies no digests: the caller does, who sees every byte.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nodejoin/steps"
)

// Options of a Store.
type Options struct {
	// Direct: File sources are read where they are (the Store runs on the controller). Otherwise only artifacts
	// staged in BlobDir are available.
	Direct bool
	// BlobDir holds staged artifacts, each named by its digest in lower-case hex.
	// A URL source that is staged is not fetched. "" = none.
	BlobDir string
	// MachineEnv looks up a variable of the machine's environment, which names the proxy for URLs; absence is
	// fs.ErrNotExist. nil = only this process's environment counts.
	MachineEnv func(ctx context.Context, name string) (string, error)
	// Client fetches URLs; nil = one with bounded waits.
	Client *http.Client
}

// limits of one archive. A join's largest archives (containerd, the Kubernetes node binaries) unpack to about
// 1 GiB and some hundred files.
type limits struct {
	members  int   // files and folders
	unpacked int64 // bytes, counted as they are unpacked
	spooled  int64 // bytes of a .zip, which must be seekable
}

var defaultLimits = limits{members: 100_000, unpacked: 16 << 30, spooled: 8 << 30}

// Store implements steps.Artifacts. It is safe for concurrent use.
type Store struct {
	opt    Options
	limits limits
	fetch  fetcher
}

var _ steps.Artifacts = (*Store)(nil)

// New creates a Store.
func New(opt Options) *Store {
	c := opt.Client
	if c == nil {
		c = newClient(opt.MachineEnv)
	}
	return &Store{opt: opt, limits: defaultLimits, fetch: fetcher{client: c, pace: defaultPace, limit: maxDownload}}
}

// Transport is what URLs are fetched with: by the proxy and the certificate authorities of this machine, with bounds.
func (s *Store) Transport() http.RoundTripper { return s.fetch.client.Transport }

// Close ends connections that nothing uses.
func (s *Store) Close() { s.fetch.client.CloseIdleConnections() }

// Open returns the bytes of src, unverified; size is -1 if unknown.
func (s *Store) Open(ctx context.Context, src steps.Source) (io.ReadCloser, int64, error) {
	if (src.URL == "") == (src.File == "") {
		return nil, 0, &steps.Error{Code: steps.CodeInvalid, Summary: "no artifact source",
			Detail: "exactly one of url and file must be set"}
	}
	algorithm, digest := src.Digest()
	if s.opt.Direct && src.File != "" {
		return openRegular(src.File)
	}
	blob, err := s.blobPath(algorithm, digest)
	if err != nil {
		return nil, 0, err
	}
	if blob != "" {
		r, n, err := openRegular(blob)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return r, n, err
		}
	}
	if src.URL != "" {
		return s.fetch.open(ctx, src)
	}
	return nil, 0, &steps.Error{Code: steps.CodeBlobMissing, Summary: "artifact not staged", Digest: digest,
		Detail: fmt.Sprintf("%s (%s %s) was not copied to this machine yet", src.File, algorithm, digest)}
}

// OpenAt returns the bytes of src from an offset on, unverified; size is that of the whole.
func (s *Store) OpenAt(ctx context.Context, src steps.Source, off, size int64) (io.ReadCloser, error) {
	if src.File == "" {
		return s.fetch.openAt(ctx, src, off, size)
	}
	f, _, err := openRegular(src.File)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// blobPath is where the artifact of a digest is staged; "" without a BlobDir or a digest.
func (s *Store) blobPath(algorithm, digest string) (string, error) {
	if digest == "" {
		return "", nil
	}
	want := 64
	if algorithm == "sha512" {
		want = 128
	}
	if len(digest) != want || strings.Trim(digest, "0123456789abcdef") != "" {
		return "", &steps.Error{Code: steps.CodeInvalid, Summary: "wrong digest form",
			Detail: fmt.Sprintf("a %s is %d lower-case hex digits, not %q", algorithm, want, digest)}
	}
	if s.opt.BlobDir == "" {
		return "", nil
	}
	return filepath.Join(s.opt.BlobDir, digest), nil
}

func openRegular(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to is not waited for
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}
