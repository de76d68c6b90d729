package planbundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"nodejoin/cmd/nodejoin/internal/mirror"
)

// Writer writes bundles.
type Writer struct {
	Split    int64         // bytes of a part; 0 = one file
	Progress func(n int64) // with bytes as they are written
}

// FileError is why a file is not in a bundle.
type FileError struct {
	Name string
	Err  error
}

func (e *FileError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// Write writes a bundle. It appears at path when it is complete; what an earlier run has written of the same bundle
// stays. It returns the sha256 of the index, which stands for all of the bundle.
func (w *Writer) Write(ctx context.Context, path string, c *Contents) (sum string, err error) {
	if err := replaceable(path); err != nil {
		return "", err
	}
	pieces, err := c.segments()
	if err != nil {
		return "", err
	}
	out := &output{path: path, split: w.Split}
	defer func() { err = errors.Join(err, out.Close()) }()
	done := 0
	for _, p := range pieces {
		at := out.at
		if !p.written(ctx, out) {
			if err := out.cut(at); err != nil {
				return "", err
			}
			break
		}
		done++
	}
	for _, p := range pieces[done:] {
		if err := w.piece(ctx, out, p); err != nil {
			return "", err
		}
	}
	if err := out.cut(out.at); err != nil { // what an earlier, longer bundle has behind
		return "", err
	}
	return text("", pieces[4].text).SHA256, out.finish()
}

// replaceable refuses to replace what is not a bundle.
func replaceable(path string) error {
	switch fi, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.IsDir() || !Is(path):
		return fmt.Errorf("%s exists and is not a bundle; name another file, or remove it", path)
	}
	return nil
}

// written reports whether an earlier run has written a piece.
func (s segment) written(ctx context.Context, out *output) bool {
	from := io.LimitReader(&bounded{ctx, out}, s.size())
	if s.file == nil {
		have, err := io.ReadAll(from)
		return err == nil && bytes.Equal(have, s.text)
	}
	n, sum, err := digestOf(from)
	return err == nil && n == s.size() && sum == s.file.SHA256
}

// piece writes a piece, verified.
func (w *Writer) piece(ctx context.Context, out *output, s segment) error {
	if s.file == nil {
		_, err := out.Write(s.text)
		return err
	}
	at := out.at
	r, err := s.file.Open()
	if err != nil {
		return &FileError{s.file.Name, err}
	}
	sum := sha256.New()
	count := &counted{out, w.Progress}
	n, err := io.Copy(io.MultiWriter(count, sum), io.LimitReader(&bounded{ctx, r}, s.file.Size+1))
	if err = errors.Join(err, r.Close()); err == nil {
		if have := hex.EncodeToString(sum.Sum(nil)); n != s.file.Size || have != s.file.SHA256 {
			err = errors.Join(&mirror.WrongBytesError{From: s.file.Name, Size: n, Digest: have, Want: s.file.SHA256},
				out.cut(at))
		}
	}
	if err != nil {
		return &FileError{s.file.Name, err}
	}
	return nil
}

type counted struct {
	io.Writer
	progress func(int64)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.progress != nil {
		c.progress(int64(n))
	}
	return n, err
}
