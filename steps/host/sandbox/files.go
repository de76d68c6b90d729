package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"nodejoin/steps/host"
)

// Stat returns information about a file of the machine.
func (h *Host) Stat(ctx context.Context, path string) (host.FileInfo, error) {
	var out host.FileInfo
	err := h.view(ctx, "stat", path, func(s *state) error {
		key, at, err := h.place(path)
		if err != nil {
			return err
		}
		fi, err := os.Lstat(at)
		link := err == nil && fi.Mode()&fs.ModeSymlink != 0
		if link {
			fi, err = os.Stat(at)
		}
		if err != nil {
			return absent(err)
		}
		out = h.info(s, key, fi)
		out.Writable = !h.windows() && fi.Mode()&0o002 != 0
		q, err := h.quirks()
		out.Open = link || out.Writable ||
			slices.ContainsFunc(q.Open, func(p string) bool { return host.SamePath(h.cfg.OS, p, path) })
		return err
	})
	return out, err
}

// isLink reports whether a link, or junction, is there. nodejoin makes none: somebody else can have it lead elsewhere.
func isLink(at string) bool {
	fi, err := os.Lstat(at)
	return err == nil && fi.Mode()&fs.ModeSymlink != 0
}

// info returns information about a file. On Windows a file inherits the access of its folder, so everything
// below a private folder is private.
func (h *Host) info(s *state, key string, fi fs.FileInfo) host.FileInfo {
	out := host.FileInfo{Name: fi.Name(), Dir: fi.IsDir(), ModTime: fi.ModTime(), ID: fileID(fi), Access: s.Access[key]}
	if !out.Dir {
		out.Size = fi.Size()
	}
	for at := key; h.windows() && out.Access == host.AccessDefault && strings.Contains(at, "/"); {
		at = at[:strings.LastIndex(at, "/")]
		out.Access = s.Access[at]
	}
	return out
}

// absent maps the error "a parent is a file" to fs.ErrNotExist: the file does not exist either way.
func absent(err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return fs.ErrNotExist
	}
	return err
}

// Open reads a file of the machine.
func (h *Host) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	const op = "open"
	if ctx.Err() != nil {
		return nil, failed(op, path, context.Cause(ctx))
	}
	at, err := h.real(path)
	if err != nil {
		return nil, failed(op, path, err)
	}
	f, err := os.Open(at)
	if err != nil {
		return nil, failed(op, path, absent(err))
	}
	if fi, err := f.Stat(); err != nil || fi.IsDir() {
		_ = f.Close()
		return nil, failed(op, path, errors.Join(err, errors.New("it is a directory")))
	}
	return f, nil
}

// List returns the entries of a directory of the machine.
func (h *Host) List(ctx context.Context, path string) ([]host.FileInfo, error) {
	var out []host.FileInfo
	err := h.view(ctx, "list", path, func(s *state) error {
		at, err := h.real(path)
		if err != nil {
			return err
		}
		entries, err := os.ReadDir(at)
		if err != nil {
			return absent(err)
		}
		key, err := h.key(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if key == "" && e.Name() == stateDir {
				continue
			}
			fi, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed since the folder was read
			}
			if err != nil {
				return err
			}
			entry := h.info(s, strings.TrimPrefix(key+"/"+h.fold(e.Name()), "/"), fi)
			entry.Elsewhere = e.Type()&fs.ModeSymlink != 0
			out = append(out, entry)
		}
		return nil
	})
	return out, err
}

// FreeBytes returns what is left of the capacity, or of the volume that holds the folder.
func (h *Host) FreeBytes(ctx context.Context, path string) (uint64, error) {
	const op = "read free space"
	if ctx.Err() != nil {
		return 0, failed(op, path, context.Cause(ctx))
	}
	if _, err := h.elements(path); err != nil {
		return 0, failed(op, path, err)
	}
	free, err := h.free()
	return free, failed(op, path, err)
}

func (h *Host) free() (uint64, error) {
	if h.cfg.Capacity == 0 {
		return volumeFree(h.cfg.Path)
	}
	var used int64
	err := filepath.WalkDir(h.cfg.Path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && d.Name() == stateDir && filepath.Dir(p) == h.cfg.Path:
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		fi, err := d.Info()
		if err == nil {
			used += fi.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	return uint64(max(0, h.cfg.Capacity-used)), err
}

// Mkdir creates a directory on the machine.
func (h *Host) Mkdir(ctx context.Context, path string, access host.Access) error {
	return failed("make directory", path, h.change(ctx, func(s *state) error {
		key, at, err := h.place(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			if errors.Is(err, syscall.ENOTDIR) {
				return fmt.Errorf("%w: a file is in the way", fs.ErrExist)
			}
			return err
		}
		return h.setAccess(s, key, at, access)
	}))
}

// Mounts returns nothing: a sandbox has no mounts.
func (h *Host) Mounts(ctx context.Context, path string) ([]string, error) {
	return nil, h.view(ctx, "list mounts", path, func(*state) error {
		_, err := h.real(path)
		return err
	})
}

// Unmount has nothing to do, since nothing is mounted.
func (h *Host) Unmount(ctx context.Context, path string) error {
	return failed("unmount", path, h.change(ctx, func(*state) error {
		_, err := h.real(path)
		return err
	}))
}

// SetAccess records who may use a file. The real file is only made one that others do not write.
func (h *Host) SetAccess(ctx context.Context, path string, access host.Access) error {
	return failed("set access", path, h.change(ctx, func(s *state) error {
		key, at, err := h.place(path)
		if err != nil {
			return err
		}
		fi, err := os.Stat(at)
		if err != nil {
			return absent(err)
		}
		if mode := fi.Mode().Perm(); !h.windows() && mode&0o002 != 0 {
			if err := os.Chmod(at, mode&^0o022); err != nil {
				return err
			}
		}
		return h.setAccess(s, key, at, access)
	}))
}

// setAccess notes who may use the file with that key, which is at a place.
func (h *Host) setAccess(s *state, key, at string, access host.Access) error {
	switch {
	case access == host.AccessPrivate && isLink(at):
		return host.ErrForeign
	case access == host.AccessPrivate, access == host.AccessProgram && !h.windows() && !isDir(at):
		s.Access[key] = access
	case access == host.AccessDefault, access == host.AccessProgram:
		delete(s.Access, key)
	default:
		return fmt.Errorf("%w: access %q", fs.ErrInvalid, access)
	}
	return nil
}

func isDir(at string) bool {
	fi, err := os.Stat(at)
	return err == nil && fi.IsDir()
}

// WriteFile replaces a file of the machine.
func (h *Host) WriteFile(ctx context.Context, path string, r io.Reader, opt host.WriteOptions) error {
	return failed("write file", path, h.writeFile(ctx, path, r, opt))
}

func (h *Host) writeFile(ctx context.Context, path string, r io.Reader, opt host.WriteOptions) error {
	err := h.state.view(ctx, func(c contents) error {
		_, _, err := h.replaceable(c.(*state), path)
		return err
	})
	if err != nil {
		return err
	}
	tmp, err := h.prepare(ctx, path, r, opt.SHA256)
	if err != nil {
		return err
	}
	// The lock is not held while the bytes arrive, so everything is checked again.
	return h.state.locked(ctx, func(c contents) error { return h.putInPlace(c.(*state), tmp, path, opt.Access) })
}

// putInPlace renames a prepared file. Its access is saved first.
func (h *Host) putInPlace(s *state, tmp, path string, access host.Access) error {
	key, at, err := h.replaceable(s, path)
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	before := s.Access[key]
	if err := h.setAccess(s, key, at, access); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	_, stale := s.Access[host.TempName(key)] // of a file of this name before
	delete(s.Access, host.TempName(key))
	if stale || s.Access[key] != before {
		if err := h.state.save(); err != nil {
			return err
		}
	}
	return os.Rename(tmp, at)
}

// replaceable returns key and place of a path, which no running program or directory may occupy.
func (h *Host) replaceable(s *state, path string) (key, at string, err error) {
	key, at, err = h.place(path)
	switch {
	case err != nil:
	case s.inUse(key):
		err = host.ErrBusy
	case isDir(at):
		err = fmt.Errorf("%w: a directory is in the way", fs.ErrExist)
	}
	return key, at, err
}

// prepare writes the bytes to a file beside path and checks them. After an error nothing is left.
func (h *Host) prepare(ctx context.Context, path string, r io.Reader, want string) (_ string, err error) {
	tmp, err := h.real(host.TempName(path))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(tmp), 0o755); err != nil {
		return "", err
	}
	limit := uint64(math.MaxInt64 - 1)
	if h.cfg.Capacity != 0 {
		if limit, err = h.free(); err != nil {
			return "", err
		}
	}
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(tmp))
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(&contextReader{ctx, r}, int64(limit)+1))
	if errors.Is(err, syscall.ENOSPC) || (err == nil && uint64(n) > limit) {
		return "", host.ErrNoSpace
	}
	if err != nil {
		return "", err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want != "" && !strings.EqualFold(got, want) {
		return "", &host.DigestError{Subject: path, Algorithm: "sha256", Want: strings.ToLower(want), Got: got}
	}
	return tmp, f.Close()
}

// contextReader fails once its context has ended.
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

// CreateExclusive creates a new file, or fails with fs.ErrExist.
func (h *Host) CreateExclusive(ctx context.Context, path string, data []byte) error {
	return failed("create file", path, h.state.locked(ctx, func(c contents) error {
		at, err := h.real(path)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(at); err == nil {
			return fs.ErrExist
		}
		tmp, err := h.prepare(ctx, path, strings.NewReader(string(data)), "")
		if err != nil {
			return err
		}
		return h.putInPlace(c.(*state), tmp, path, host.AccessDefault)
	}))
}

// Rename moves a file of the machine. As on Windows, the file of a running program may be moved; the program
// keeps running.
func (h *Host) Rename(ctx context.Context, oldPath, newPath string) error {
	return failed("rename to", newPath, h.change(ctx, func(s *state) error {
		from, err := h.real(oldPath)
		if err != nil {
			return err
		}
		fi, err := os.Lstat(from)
		if err != nil {
			return absent(err)
		}
		oldKey, err := h.key(oldPath)
		if err != nil {
			return err
		}
		newKey, err := h.key(newPath)
		if err != nil {
			return err
		}
		if oldKey != newKey {
			if _, _, err := h.replaceable(s, newPath); err != nil {
				return err
			}
		}
		if fi.IsDir() && s.inUseBelow(oldKey) {
			return host.ErrBusy
		}
		to, err := h.real(newPath)
		if err != nil {
			return err
		}
		if oldKey == newKey { // only the case of the name changes
			to = filepath.Join(filepath.Dir(to), host.Base(h.cfg.OS, newPath))
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
		s.moved(oldKey, newKey)
		return nil
	}))
}

// moved carries the access and use of a renamed file or directory over to its new name.
func (s *state) moved(oldKey, newKey string) {
	if oldKey == newKey {
		return
	}
	delete(s.Access, newKey)
	next := map[string]host.Access{}
	for k, a := range s.Access {
		if rest, ok := strings.CutPrefix(k, oldKey); ok && (rest == "" || rest[0] == '/') {
			k = newKey + rest
		}
		next[k] = a
	}
	s.Access = next
	for _, svc := range s.Services {
		for i, k := range svc.InUse {
			if k == oldKey {
				svc.InUse[i] = newKey
			}
		}
	}
}

// Remove deletes a file or an empty directory of the machine.
func (h *Host) Remove(ctx context.Context, path string) error {
	return failed("remove", path, h.change(ctx, func(s *state) error {
		key, err := h.key(path)
		if err != nil {
			return err
		}
		if s.inUse(key) {
			return host.ErrBusy
		}
		at, err := h.real(path)
		if err != nil {
			return err
		}
		if at == h.cfg.Path {
			return badPath("the root cannot be removed")
		}
		if err := os.Remove(at); err != nil && !errors.Is(absent(err), fs.ErrNotExist) {
			return err
		}
		delete(s.Access, key)
		return nil
	}))
}
