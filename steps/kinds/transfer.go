package kinds

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
)

// validSource wants one place and a well-formed digest.
func validSource(s steps.Source) error {
	alg, digest := s.Digest()
	want := map[string]int{"sha256": sha256.Size, "sha512": sha512.Size}[alg]
	b, err := hex.DecodeString(digest)
	switch {
	case (s.URL == "") == (s.File == ""):
		return steps.Invalid("exactly one of url and file names the artifact")
	case digest == "":
		return steps.Invalid("%s has no digest; give sha256 or sha512", s.Name())
	case err != nil || len(b) != want || hex.EncodeToString(b) != digest:
		return steps.Invalid("%s: %q is not a %s digest in lower-case hex", s.Name(), digest, alg)
	}
	return nil
}

// blobs is what Change.Blobs lists for a source.
func blobs(s steps.Source) []steps.Source {
	if s.File == "" {
		return nil
	}
	return []steps.Source{s}
}

// download is the byte stream of an artifact on its way through its digest. Its
// end is io.EOF only when the digest holds, otherwise a *host.DigestError, so that
// whoever writes the stream to a file fails and keeps nothing.
type download struct {
	src      steps.Source
	r        io.ReadCloser
	promised hash.Hash // of the algorithm that the source gives
	sum      hash.Hash // sha256
	progress func(event.StepProgress)
	done     int64
	total    int64
	reported time.Time
	end      error // what ended the stream
}

// fetch opens an artifact.
func fetch(ctx context.Context, e *steps.Env, src steps.Source) (*download, error) {
	r, size, err := e.Artifacts.Open(ctx, src)
	if err != nil {
		return nil, err
	}
	alg, _ := src.Digest()
	return &download{src: src, r: r, promised: steps.NewHash(alg), sum: sha256.New(), progress: e.Progress,
		total: max(size, 0), reported: time.Now()}, nil
}

// progressEvery bounds the rate of progress events of a transfer.
const progressEvery = 200 * time.Millisecond

func (d *download) Read(p []byte) (int, error) {
	if d.end != nil {
		return 0, d.end
	}
	n, err := d.r.Read(p)
	d.promised.Write(p[:n])
	d.sum.Write(p[:n])
	d.done += int64(n)
	if errors.Is(err, io.EOF) {
		err = d.verify()
	}
	d.end = err
	if n > 0 && (err != nil || time.Since(d.reported) >= progressEvery) {
		d.reported = time.Now()
		d.progress(event.StepProgress{Done: d.done, Total: d.total})
	}
	return n, err
}

func (d *download) verify() error {
	alg, want := d.src.Digest()
	if got := hex.EncodeToString(d.promised.Sum(nil)); got != want {
		return &host.DigestError{Subject: d.src.Name(), Algorithm: alg, Want: want, Got: got}
	}
	return io.EOF
}

// drain reads to the end; nil means that the digest of the whole stream holds.
func (d *download) drain() error {
	_, err := io.Copy(io.Discard, struct{ io.Reader }{d})
	return err
}

// SHA256 of what was read, lower-case hex.
func (d *download) SHA256() string { return hex.EncodeToString(d.sum.Sum(nil)) }

func (d *download) Close() error { return d.r.Close() }

// discard removes files that an abandoned transfer may have left, even after ctx
// has ended. What cannot be removed is taken over by the next try.
func discard(ctx context.Context, h host.Files, paths ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, p := range paths {
		for _, f := range []string{p, host.TempName(p)} {
			if _, err := h.Stat(ctx, f); err == nil {
				_ = h.Remove(ctx, f)
			}
		}
	}
}

// anyRuns reports whether one of the services is not stopped.
func anyRuns(ctx context.Context, r host.Reader, names []string) (bool, error) {
	for _, n := range names {
		svc, err := r.Service(ctx, n)
		if err == nil && svc.State != host.ServiceStopped {
			return true, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}

// stopUsers stops the services that run from files about to be replaced.
func stopUsers(ctx context.Context, h host.Host, e *steps.Env, names []string) error {
	for _, n := range names {
		if err := stopService(ctx, h, e, n); err != nil {
			return err
		}
	}
	return nil
}

// moveIn renames a verified file to its place.
func moveIn(ctx context.Context, h host.Files, from, to string) error {
	return running(to, h.Rename(ctx, from, to))
}

// running is the error of putting a file in its place, with the remedy where a program runs from it.
func running(to string, err error) error {
	if errors.Is(err, host.ErrBusy) {
		return &steps.Error{Code: steps.CodeFailed, Summary: "the program is running",
			Detail: fmt.Sprintf("%s cannot be replaced while it runs: %v", to, err),
			Remedy: "name the service that runs it in the step's services, or stop the program"}
	}
	return err
}
