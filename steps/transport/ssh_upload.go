package transport

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/pkg/sftp"

	"nodejoin/steps/transport/wire"
)

// send writes a file with many requests under way at once: a new one, or what a file lacks after the bytes that m has
// done.
func send(c *sftp.Client, dest string, m *meter) error {
	from, how := m.done, os.O_WRONLY|os.O_CREATE
	if from == 0 {
		how |= os.O_TRUNC
	}
	f, err := c.OpenFile(dest, how)
	if err != nil {
		return err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return errors.Join(err, f.Close())
	}
	n, err := f.ReadFrom(m)
	n += from
	if m.err != nil {
		err = m.err
	}
	if err == nil && n != m.total {
		err = fmt.Errorf("%d of %d bytes were read: %w", n, m.total, io.ErrUnexpectedEOF)
	}
	return errors.Join(err, f.Close())
}

// replace gives temp the name dest. On servers without an atomic rename it moves dest away first; Windows
// can rename a running program but not replace it.
func replace(c *sftp.Client, temp, dest string) error {
	if c.PosixRename(temp, dest) == nil {
		return nil
	}
	if err := c.Remove(dest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = c.Rename(dest, dest+"."+strings.ToLower(rand.Text()[:8])+wire.Leftover)
	}
	return c.Rename(temp, dest)
}

// meter reads a file of known size for an upload: it ends with its context, and
// says how far it is.
type meter struct {
	ctx      context.Context
	r        io.Reader
	total    int64
	alive    func()                  // hears that there is progress
	progress func(done, total int64) // may be nil
	done     int64
	said     time.Time
	err      error // of r or ctx
}

// already reads what an earlier transfer left on the machine, if that is the beginning of the artifact, and returns
// how many bytes these are.
func already(f *io.SectionReader, state wire.BlobState) (int64, error) {
	if state.Part <= 0 || state.Part > f.Size() {
		return 0, nil
	}
	begin := sha256.New()
	if _, err := io.CopyN(begin, f, state.Part); err != nil {
		return 0, err
	}
	if hex.EncodeToString(begin.Sum(nil)) == state.PartSHA256 {
		return state.Part, nil
	}
	_, err := f.Seek(0, io.SeekStart)
	return 0, err
}

// progressEvery bounds how often progress is reported.
const progressEvery = 100 * time.Millisecond

// Size lets sftp.File.ReadFrom choose how many requests to keep under way.
func (m *meter) Size() int64 { return m.total }

func (m *meter) Read(p []byte) (int, error) {
	if err := context.Cause(m.ctx); err != nil {
		m.err = err
		return 0, err
	}
	m.alive()
	n, err := m.r.Read(p)
	m.done += int64(n)
	if err != nil && err != io.EOF {
		m.err = err
	}
	if now := time.Now(); m.progress != nil && n > 0 && (m.done == m.total || now.Sub(m.said) > progressEvery) {
		m.said = now
		m.progress(m.done, m.total)
	}
	return n, err
}

// discard removes a file, or a folder with the files in it. Its failures do not matter.
func discard(c *sftp.Client, name string) {
	if empty(c, name) {
		_ = c.RemoveDirectory(name)
		return
	}
	_ = c.Remove(name)
}

// empty removes the files in a folder. It is false for what is not one. Its other failures do not matter: a folder
// that is not empty cannot be removed.
func empty(c *sftp.Client, name string) bool {
	list, err := c.ReadDir(name)
	for _, fi := range list {
		_ = c.Remove(path.Join(name, fi.Name()))
	}
	return err == nil
}
