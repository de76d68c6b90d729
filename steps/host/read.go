package host

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"
)

// MaxText is the size up to which a file is read into memory to be compared or shown (bytes).
const MaxText = 1 << 20

// File is a file with its content as observed.
type File struct {
	Content   []byte
	Size      int64
	ModTime   time.Time
	Access    Access
	Writable  bool // see FileInfo
	Truncated bool // Content was not read to its end
}

// ReadFile reads a file of up to limit bytes. An absent one is nil without an error; a directory in its place is
// ErrDirectory.
func ReadFile(ctx context.Context, r FilesReader, path string, limit int) (*File, error) {
	fi, err := r.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if fi.Dir {
		return nil, &Error{Op: "read file", Subject: path, Err: ErrDirectory}
	}
	f := &File{Size: fi.Size, ModTime: fi.ModTime, Access: fi.Access, Writable: fi.Writable}
	rc, err := r.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	if f.Content, err = io.ReadAll(io.LimitReader(rc, int64(limit)+1)); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(f.Content) > limit {
		f.Truncated, f.Content = true, f.Content[:limit]
	}
	return f, nil
}

// maxSkip bounds what ReadTail reads of a file that cannot be read from its end (bytes).
const maxSkip = 256 << 20

// ReadTail reads up to most bytes from the end of a file. cut reports whether there is more before them; then they
// begin with a line, unless they are all of one line. A directory is ErrDirectory.
func ReadTail(ctx context.Context, r FilesReader, path string, most int64) (b []byte, cut bool, err error) {
	fi, err := r.Stat(ctx, path)
	if err != nil {
		return nil, false, err
	}
	if fi.Dir {
		return nil, false, &Error{Op: "read file", Subject: path, Err: ErrDirectory}
	}
	rc, err := r.Open(ctx, path)
	if err != nil {
		return nil, false, err
	}
	defer rc.Close()
	if skip := fi.Size - most; skip > 0 {
		cut = true
		if s, ok := rc.(io.Seeker); ok {
			_, err = s.Seek(skip, io.SeekStart)
		} else if skip > maxSkip {
			return nil, false, fmt.Errorf("%s has %d bytes and cannot be read from its end", path, fi.Size)
		} else {
			_, err = io.CopyN(io.Discard, rc, skip)
		}
		if err != nil {
			return nil, false, err
		}
	}
	if b, err = io.ReadAll(io.LimitReader(rc, most)); err != nil {
		return nil, false, err
	}
	if i := bytes.IndexByte(b, '\n'); cut && i >= 0 {
		b = b[i+1:]
	}
	return b, cut, nil
}

// Exists reports whether there is a file or a directory at path.
func Exists(ctx context.Context, r FilesReader, path string) (bool, error) {
	_, err := r.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// HashFile is the digest of a file by h, in lower-case hex.
func HashFile(ctx context.Context, r FilesReader, path string, h hash.Hash) (string, error) {
	rc, err := r.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	if _, err := io.Copy(h, rc); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// LookupRegistry reads a value; ok is false where it is absent.
func LookupRegistry(ctx context.Context, r RegistryReader, key, name string) (v RegistryValue, ok bool, err error) {
	v, err = r.RegistryValue(ctx, key, name)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	return v, err == nil, err
}

// LookupRegistryNames returns the names of the values of a key; ok is false where the key is absent.
func LookupRegistryNames(ctx context.Context, r RegistryReader, key string) (values []string, ok bool, err error) {
	_, values, err = r.RegistryNames(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return values, err == nil, err
}

// LookupEnv reads a variable of the machine's environment; "" where it is absent.
func LookupEnv(ctx context.Context, r SystemReader, name string) (string, error) {
	v, err := r.MachineEnv(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return v, err
}
