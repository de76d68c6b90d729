package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"nodejoin/cmd/nodejoin/internal/registry"
	"nodejoin/plan/block"
	"nodejoin/steps"
)

// Registry is a mirror in a repository of a container registry.
type Registry struct {
	Repository *registry.Repository
	// OpenAt returns the bytes of an artifact from an offset on; size is that of the whole.
	OpenAt func(ctx context.Context, src steps.Source, off, size int64) (io.ReadCloser, error)
	// Parallel is how many are written at once.
	Parallel int
	*Report
}

// Check compares what the registry says that it has with the lock. Whoever reads an artifact from it compares its
// bytes.
func (r *Registry) Check(ctx context.Context, it Item) (State, error) {
	state, err := r.Repository.Check(ctx, r.artifact(it))
	return map[registry.State]State{registry.Missing: Missing, registry.Other: Wrong, registry.There: There}[state], err
}

// Fill writes what is missing or wrong.
func (r *Registry) Fill(ctx context.Context, items []Item) error {
	return each(r.Parallel, items, func(it Item) error {
		state, err := r.Check(ctx, it)
		if err != nil {
			return &targetError{err}
		}
		if state == There {
			return nil
		}
		err = r.Repository.Write(ctx, r.artifact(it), func() (io.ReadCloser, error) {
			body, err := r.OpenAt(ctx, it.From, 0, it.Size)
			if err != nil {
				return nil, &sourceError{err}
			}
			return &checked{r.meter(body), body, sha256.New(), it, 0}, nil
		})
		var source *sourceError
		if err != nil && !errors.As(err, &source) {
			err = &targetError{err}
		}
		if err != nil {
			return err
		}
		r.fetched(it)
		return nil
	})
}

func (r *Registry) artifact(it Item) registry.Artifact {
	return registry.Artifact{Tag: block.MirrorTag(it.File), Title: it.File, Size: it.Size, SHA256: it.SHA256}
}

// checked is an artifact that ends with an error if it is not what is locked, so that the registry never gets its end.
type checked struct {
	from io.Reader
	io.Closer
	sum  hash.Hash
	item Item
	n    int64
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.sum.Write(p[:n])
	c.n += int64(n)
	if err != nil && err != io.EOF {
		return n, &sourceError{err}
	}
	if c.n <= c.item.Size && err == nil {
		return n, nil
	}
	if have := hex.EncodeToString(c.sum.Sum(nil)); c.n != c.item.Size || have != c.item.SHA256 {
		return 0, &sourceError{&WrongBytesError{c.item.From.Name(), c.n, have, c.item.SHA256}}
	}
	return n, err
}

// sourceError is why an artifact cannot be read, and targetError why the registry cannot be asked or written.
type (
	sourceError struct{ error }
	targetError struct{ error }
)

func (e *sourceError) Unwrap() error { return e.error }
func (e *targetError) Unwrap() error { return e.error }
