package artifact

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zip"

	"nodejoin/steps"
)

// Unpack reads a .tar, .tar.gz, .tgz or .zip archive, by its name or else by how it begins, and passes its regular
// files to each, in order. It fails when it reaches a member that is not a regular file or folder, or whose name the
// target OS cannot represent safely.
func (s *Store) Unpack(ctx context.Context, r io.Reader, name, targetOS string,
	each func(steps.Member, io.Reader) error) error {
	u := &unpacking{limits: s.limits, names: newNames(targetOS), each: each, archive: base(name)}
	r = &contextReader{ctx, r}
	err := u.run(ctx, r, strings.ToLower(u.archive))
	switch {
	case u.failed != nil:
		return u.failed // what each said, without the library's wrapping
	case err == nil && u.members == 0:
		return u.refuse("it contains no files")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s is truncated: %w", u.archive, err)
	case err != nil && ctx.Err() == nil:
		var se *steps.Error
		if errors.As(err, &se) {
			return se
		}
		return fmt.Errorf("unpacking %s: %w", u.archive, err)
	}
	return err
}

type unpacking struct {
	limits
	archive  string // file name, for errors
	names    *names
	each     func(steps.Member, io.Reader) error
	members  int
	declared int64 // sum of the members' sizes
	unpacked int64 // bytes that came
	failed   error // of each
}

func (u *unpacking) run(ctx context.Context, r io.Reader, name string) error {
	switch {
	case strings.HasSuffix(name, ".zip"):
		return u.zip(ctx, r)
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		gz, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("it is not a gzip file: %w", err)
		}
		defer func() { _ = gz.Close() }()
		return u.tar(ctx, gz)
	case strings.HasSuffix(name, ".tar"):
		return u.tar(ctx, r)
	}
	// A tag of a registry need not end as a file's name does.
	peek := bufio.NewReaderSize(r, ustarAt+len(ustar))
	first, _ := peek.Peek(ustarAt + len(ustar)) // less is there, or the error comes again
	switch {
	case bytes.HasPrefix(first, []byte("\x1f\x8b")): // RFC 1952
		return u.run(ctx, peek, ".tar.gz")
	case bytes.HasPrefix(first, []byte("PK\x03\x04")): // APPNOTE.TXT, 4.3.7
		return u.run(ctx, peek, ".zip")
	case bytes.HasSuffix(first, []byte(ustar)):
		return u.run(ctx, peek, ".tar")
	}
	return &steps.Error{Code: steps.CodeInvalid, Summary: "unknown archive type",
		Detail: fmt.Sprintf("%s is not named .tar, .tar.gz, .tgz or .zip, and does not begin as one of these", u.archive)}
}

// ustar is in a header of tar at ustarAt (POSIX.1-2017, pax, "ustar Interchange Format").
const (
	ustar   = "ustar"
	ustarAt = 257
)

func (u *unpacking) tar(ctx context.Context, r io.Reader) error {
	// Counted here, what each skips counts too.
	counted := &countedReader{u, r}
	archive := tar.NewReader(counted)
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			// To the end, so that a gzip trailer is checked.
			_, err = io.Copy(io.Discard, counted)
			return err
		case errors.Is(err, tar.ErrHeader):
			return fmt.Errorf("it is not a tar archive, or damaged: %w", err)
		case err != nil:
			return err
		case h.Typeflag == tar.TypeXGlobalHeader: // what git archive writes its commit to
			continue
		}
		m := member{name: h.Name, size: h.Size, mode: h.FileInfo().Mode(), dir: h.Typeflag == tar.TypeDir,
			regular: h.Typeflag == tar.TypeReg, open: func() (io.ReadCloser, error) { return io.NopCloser(archive), nil }}
		if err := u.member(ctx, m); err != nil {
			return err
		}
	}
}

func (u *unpacking) zip(ctx context.Context, r io.Reader) (err error) {
	sweepSpool()
	f, err := os.CreateTemp("", spoolPattern)
	if err != nil {
		return err
	}
	defer func() {
		if e := errors.Join(f.Close(), os.Remove(f.Name())); err == nil {
			err = e
		}
	}()
	n, err := io.Copy(f, io.LimitReader(r, u.spooled+1))
	if err != nil {
		return err
	}
	if n > u.spooled {
		return u.refuse("it is larger than %d bytes", u.spooled)
	}
	archive, err := zip.NewReader(f, n)
	if errors.Is(err, zip.ErrFormat) {
		return fmt.Errorf("it is not a zip archive, or truncated: %w", err)
	}
	if err != nil {
		return err
	}
	for _, f := range archive.File {
		if f.Method != zip.Store && f.Method != zip.Deflate {
			return u.refuse("member %q is compressed with method %d; only store and deflate are supported", f.Name, f.Method)
		}
		m := member{name: f.Name, size: f.FileInfo().Size(), mode: f.Mode(), dir: f.Mode().IsDir(),
			regular: f.Mode().IsRegular(), uncounted: true, open: f.Open}
		if err := u.member(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Spools of runs that were killed are removed by a later one.
const (
	spoolPattern = "nodejoin-spool-*.zip"
	spoolAge     = 2 * time.Hour // longer than an archive takes
)

func sweepSpool() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), spoolPattern))
	for _, p := range left {
		if fi, err := os.Lstat(p); err == nil && time.Since(fi.ModTime()) > spoolAge {
			_ = os.Remove(p) // one that is in use or another user's stays
		}
	}
}

// member is an entry of an archive, of either type.
type member struct {
	name         string // as the archive gives it
	size         int64  // as it is declared
	mode         fs.FileMode
	dir, regular bool
	uncounted    bool // what it unpacks to is to be counted
	open         func() (io.ReadCloser, error)
}

// member is called for every entry of the archive.
func (u *unpacking) member(ctx context.Context, m member) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u.members++; u.members > u.limits.members {
		return u.refuse("it contains more than %d files", u.limits.members)
	}
	what := fmt.Sprintf("member %q", m.name)
	if !m.dir && !m.regular {
		return u.refuse("%s is a link, a device or another special file", what)
	}
	name, problem := u.names.add(m.name, m.dir)
	if problem != "" {
		return u.refuse("%s %s", what, problem)
	}
	if m.dir {
		return nil
	}
	// A sparse member of a tar unpacks to more than its bytes in the archive, so both the declared sizes and the
	// unpacked bytes are bounded.
	if m.size < 0 || m.size > u.limits.unpacked-u.declared {
		return u.refuse("with %s it unpacks to more than %d bytes", what, u.limits.unpacked)
	}
	u.declared += m.size
	body, err := m.open()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() { _ = body.Close() }()
	var r io.Reader = &contextReader{ctx, body}
	if m.uncounted {
		r = &countedReader{u, r}
	}
	keep := &errorReader{r: r}
	err = u.each(steps.Member{Name: name, Size: m.size, Executable: m.mode&0o111 != 0}, keep)
	if err != nil && keep.err == nil {
		u.failed = err
	}
	if keep.err != nil {
		return fmt.Errorf("%s: %w", what, keep.err)
	}
	return err
}

func (u *unpacking) refuse(format string, a ...any) error {
	return &steps.Error{Code: steps.CodeInvalid, Summary: "archive refused",
		Detail: u.archive + ": " + fmt.Sprintf(format, a...),
		Remedy: "use the archive that the project publishes; nothing was unpacked"}
}

// countedReader bounds what an archive unpacks to.
type countedReader struct {
	u *unpacking
	r io.Reader
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.u.unpacked += int64(n); c.u.unpacked > c.u.limits.unpacked {
		return 0, c.u.refuse("it unpacks to more than %d bytes", c.u.limits.unpacked)
	}
	return n, err
}

// errorReader remembers why reading a member failed.
type errorReader struct {
	r   io.Reader
	err error
}

func (e *errorReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && err != io.EOF {
		e.err = err
	}
	return n, err
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// base is the last element of a path or URL, without a query.
func base(name string) string {
	name, _, _ = strings.Cut(name, "?")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	return name
}
