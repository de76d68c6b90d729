package planbundle

import (
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
