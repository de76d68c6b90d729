package planbundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// verified hashes what is read.
type verified struct {
	r   io.Reader
	sum hash.Hash
}

func newVerified(r io.Reader) *verified { return &verified{r, sha256.New()} }

// Read reads on.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	return n, err
}

// drain reads to the end.
func (v *verified) drain() error {
	_, err := io.Copy(io.Discard, v)
	return err
}

func (v *verified) hex() string { return hex.EncodeToString(v.sum.Sum(nil)) }

// failing remembers why reading failed.
type failing struct {
	r   io.Reader
	err error
}

// Read reads on.
func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// hashing hashes what is written.
type hashing struct {
	io.Writer
	sum hash.Hash
}

func newHashing(w io.Writer) *hashing {
	h := sha256.New()
	return &hashing{io.MultiWriter(w, h), h}
}

func (h *hashing) hex() string { return hex.EncodeToString(h.sum.Sum(nil)) }

// bounded ends with its context.
type bounded struct {
	ctx context.Context
	r   io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.r.Read(p)
}

// digestOf is the length of a reader and its sha256, in hex.
func digestOf(r io.Reader) (n int64, sum string, err error) {
	h := sha256.New()
	n, err = io.Copy(h, r)
	return n, hex.EncodeToString(h.Sum(nil)), err
}
