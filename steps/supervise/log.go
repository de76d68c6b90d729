package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// rotating is a log file that is set aside as path.1 (then .2 ...) before it
// grows past size bytes; keep files are kept. Safe for concurrent use.
type rotating struct {
	mu      sync.Mutex
	path    string
	size    int64
	keep    int
	file    *os.File
	written int64
}

func openLog(path string, size int64, keep int) (*rotating, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	r := &rotating{path: path, size: size, keep: keep}
	return r, r.open()
}

func (r *rotating) open() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.file, r.written = f, info.Size()
	return nil
}

func (r *rotating) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil { // an earlier rotation failed half-way
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	if r.written > 0 && r.written+int64(len(b)) > r.size {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.file.Write(b)
	r.written += int64(n)
	return n, err
}

func (r *rotating) rotate() error {
	err := r.file.Close()
	r.file = nil
	if err != nil {
		return err
	}
	for i := r.keep; i > 0; i-- {
		from := r.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", r.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", r.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if r.keep == 0 {
		if err := os.Remove(r.path); err != nil {
			return err
		}
	}
	return r.open()
}

func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
