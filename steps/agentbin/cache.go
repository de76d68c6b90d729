package agentbin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", Unusable("", err)
	}
	return filepath.Join(base, "nodejoin", "agents"), nil
}

// fileName of an agent in the cache contains its digest, so a file of this name never changes.
func fileName(os, arch, digest string) string {
	name := "nodejoin-agent-" + os + "-" + arch + "-" + digest[:16]
	if os == "windows" {
		name += ".exe"
	}
	return name
}

const (
	writeLock = "lock" // the file that a process locks while it writes into a folder of the cache
	unwritten = "new-" // begins the names of files that are being written
)

// writeBound is how long another process may take to write an agent.
const writeBound = 2 * time.Minute

// put writes an executable file of the cache, whole or not at all. valid reports whether the file in its place is
// good: another process may have written it meanwhile, and then it stays. One process at a time writes into a folder,
// so what is unfinished there is of a process that was killed, and goes.
func put(path string, valid func() bool, r io.Reader) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Unusable(dir, err)
	}
	lock := flock.New(filepath.Join(dir, writeLock), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	for end := time.Now().Add(writeBound); err == nil && !locked; locked, err = lock.TryLock() {
		if time.Now().After(end) {
			return Unusable(dir, fmt.Errorf("another nodejoin has been writing there for %s", writeBound))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if errors.As(err, new(*fs.PathError)) {
		return Unusable(dir, err)
	}
	defer func() { _ = lock.Close() }()
	if locked { // else the file system has no locks
		sweep(dir)
	}
	if valid() {
		return nil
	}
	from := &reading{Reader: r}
	err = writeFile(path, from)
	switch {
	case from.err != nil:
		return from.err
	case err != nil && valid(): // a process without the lock was faster
		return nil
	}
	return Unusable(dir, err)
}

// reading notes the error of a reader.
type reading struct {
	io.Reader
	err error // but io.EOF
}

func (r *reading) Read(p []byte) (n int, err error) {
	n, err = r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// sweep removes what killed processes left. Its failures do not matter.
func sweep(dir string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), unwritten) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// writeFile writes an executable file, whole or not at all.
func writeFile(path string, r io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(path), unwritten+"*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Chmod(0o700), f.Close()); err == nil {
		err = rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// renameBound is how long a file that is to be replaced may be open in another process, on Windows.
const renameBound = 2 * time.Second

// rename gives a file its name. Windows replaces no file that a process has open: another one may be looking at it.
func rename(from, to string) error {
	for end := time.Now().Add(renameBound); ; time.Sleep(10 * time.Millisecond) {
		err := os.Rename(from, to)
		if err == nil || !inUse(err) || time.Now().After(end) {
			return err
		}
	}
}

// short is a short name for a path.
func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}
