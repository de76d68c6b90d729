package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// artifacts checks the controller's files against their digests. Each is read once per run, for any number
// of hosts.
type artifacts struct {
	mu   sync.Mutex
	sums map[artifactKey]func() (string, error)
}

type artifactKey struct{ file, algorithm string }

// check reads the file of src; nil = it has the digest of src.
func (a *artifacts) check(ctx context.Context, src steps.Source) *steps.Error {
	algorithm, want := src.Digest()
	have, err := a.sum(ctx, artifactKey{src.File, algorithm})()
	switch {
	case ctx.Err() != nil:
		return steps.Interrupted("apply")
	case err != nil:
		detail := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			detail = src.File + " does not exist"
		}
		return &steps.Error{Code: steps.CodeFailed, Summary: "an artifact cannot be read", Detail: detail,
			Remedy: "put the file there, or correct the path or the version in the plan"}
	case have != want:
		return steps.AsError(&host.DigestError{Subject: src.File, Algorithm: algorithm, Want: want, Got: have})
	}
	return nil
}

// sum returns a function for the digest of a file; its first call reads the file.
func (a *artifacts) sum(ctx context.Context, key artifactKey) func() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sums[key] == nil {
		if a.sums == nil {
			a.sums = map[artifactKey]func() (string, error){}
		}
		a.sums[key] = sync.OnceValues(func() (string, error) { return digestOf(ctx, key) })
	}
	return a.sums[key]
}

// digestOf reads a file, which must be a regular file.
func digestOf(ctx context.Context, key artifactKey) (string, error) {
	fi, err := os.Stat(key.file)
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: key.file, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return "", err
	}
	f, err := os.Open(key.file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it is only read
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	defer stop()
	sum := steps.NewHash(key.algorithm)
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
