package transport

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

// Contents are the files that a run sends to machines. Each is opened and hashed once, for any number of machines,
// and again only if it has changed since. Safe for concurrent use; the zero value is ready.
type Contents struct {
	mu    sync.Mutex
	files map[contentKey]*contentFile
}

type contentKey struct{ file, algorithm string }

// Content is a file with the digest of its source. Its bytes are those that were hashed, unless somebody writes into
// the file meanwhile: the machine checks them again.
type Content struct {
	Source steps.Source
	Size   int64 // bytes
	file   *os.File
}

// Reader reads the file from its beginning, for one machine.
func (c *Content) Reader() *io.SectionReader { return io.NewSectionReader(c.file, 0, c.Size) }

// contentFile is one file; mu is held while it is opened and hashed.
type contentFile struct {
	mu   sync.Mutex
	file *os.File
	info fs.FileInfo // when it was hashed
	sum  string
	old  []*os.File // what lay there before, which may still be on its way
}

// Open returns the file of a source. Errors: fs.ErrNotExist; *host.DigestError for other bytes than those of the
// source.
func (c *Contents) Open(ctx context.Context, src steps.Source) (*Content, error) {
	algorithm, want := src.Digest()
	f := c.of(contentKey{src.File, algorithm})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(ctx, src.File, algorithm); err != nil {
		return nil, err
	}
	if f.sum != want {
		return nil, &host.DigestError{Subject: src.File, Algorithm: algorithm, Want: want, Got: f.sum}
	}
	return &Content{Source: src, Size: f.info.Size(), file: f.file}, nil
}

// Close closes the files; nothing can be read from them any more.
func (c *Contents) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		f.mu.Lock()
		f.drop()
		for _, old := range f.old {
			_ = old.Close() // it was only read
		}
		f.mu.Unlock()
	}
	c.files = nil
}

func (c *Contents) of(key contentKey) *contentFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = map[contentKey]*contentFile{}
	}
	if c.files[key] == nil {
		c.files[key] = &contentFile{}
	}
	return c.files[key]
}

// drop forgets the file that is open.
func (f *contentFile) drop() {
	if f.file != nil {
		f.old = append(f.old, f.file)
	}
	f.file = nil
}

// open opens and hashes a file, unless that was done and the file is the same.
func (f *contentFile) open(ctx context.Context, path, algorithm string) error {
	now, err := os.Stat(path)
	if err == nil && !now.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return err
	}
	if f.file != nil && os.SameFile(f.info, now) && f.info.Size() == now.Size() && f.info.ModTime().Equal(now.ModTime()) {
		return nil
	}
	f.drop()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	sum := steps.NewHash(algorithm)
	info, err := file.Stat()
	if err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{sum}, &ending{ctx, file}, make([]byte, 256<<10))
	}
	if err != nil {
		_ = file.Close() // it was only read
		return err
	}
	f.file, f.info, f.sum = file, info, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// ending reads until its context ends.
type ending struct {
	ctx context.Context
	r   io.Reader
}

func (e *ending) Read(p []byte) (int, error) {
	if err := context.Cause(e.ctx); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}
