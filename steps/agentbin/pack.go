package agentbin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// An agent is packed as a tar.gz with one file, PackedName: the one form that every machine can unpack without a
// program of ours. Windows has tar.exe since 2018, which reads gzip in all its versions.
const (
	PackedSuffix = ".tgz" // beside an agent in the cache lies the same agent, packed
	PackedName   = "agent"
)

// Packed is an agent as a release carries it.
type Packed struct {
	TGZ    []byte
	Digest string // sha256 of the agent, lower-case hex
}

// unpack gives the agent in p to write.
func (p Packed) unpack(write func(io.Reader) error) error {
	z, err := gzip.NewReader(bytes.NewReader(p.TGZ))
	if err != nil {
		return fmt.Errorf("unpack the agent: %w", err)
	}
	r := tar.NewReader(z)
	if _, err := r.Next(); err != nil {
		return fmt.Errorf("unpack the agent: %w", err)
	}
	return write(r)
}

// unkept are the agents of this program that Get has named and that are not in the cache yet, as far as is known.
var unkept = struct {
	sync.Mutex
	agents map[string]func() (Packed, error) // by path
}{agents: map[string]func() (Packed, error){}}

// carry notes where Keep gets an agent from.
func carry(path string, get func() (Packed, error)) {
	unkept.Lock()
	defer unkept.Unlock()
	unkept.agents[path] = get
}

// Keep makes sure that the packed agent is beside a path that Get returned.
func Keep(path string) error {
	unkept.Lock()
	defer unkept.Unlock()
	get := unkept.agents[path]
	if get == nil {
		return nil
	}
	p, err := get()
	if err != nil {
		return err
	}
	if err := keepPacked(path, p); err != nil {
		return err
	}
	delete(unkept.agents, path)
	return nil
}

// keepPacked stores an agent beside a path in the cache, packed.
func keepPacked(path string, p Packed) error {
	there := func() bool { return holds(path+PackedSuffix, p.TGZ) }
	if there() {
		return nil
	}
	return put(path+PackedSuffix, there, bytes.NewReader(p.TGZ))
}

// holds reports whether a file has this content. It does not hold the file in memory.
func holds(path string, content []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for b := make([]byte, 64<<10); ; {
		n, err := f.Read(b)
		rest, ok := bytes.CutPrefix(content, b[:n])
		if content = rest; !ok || err != nil {
			return ok && errors.Is(err, io.EOF) && len(content) == 0
		}
	}
}

// Size is the size, in bytes, of the agent at a path that Get returned, whether it is unpacked or not.
func Size(path string) (int64, error) {
	if err := Keep(path); err != nil {
		return 0, err
	}
	f, err := os.Open(path + PackedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		fi, err := os.Stat(path)
		if err != nil {
			return 0, Unusable(filepath.Dir(path), err)
		}
		return fi.Size(), nil
	}
	if err != nil {
		return 0, Unusable(filepath.Dir(path), err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return 0, fmt.Errorf("read the packed agent: %w", err)
	}
	header, err := tar.NewReader(z).Next()
	if err != nil {
		return 0, fmt.Errorf("read the packed agent: %w", err)
	}
	return header.Size, nil
}

// verified are agents whose content this process has hashed: many hosts may need one at once.
var verified = struct {
	sync.Mutex
	files map[string]verifiedFile // by path
}{files: map[string]verifiedFile{}}

// verifiedFile is what a file was when it had this sha256.
type verifiedFile struct {
	sha256   string
	size     int64
	modified time.Time
}

// Unpack makes sure that the agent of this sha256 is at a path that Get returned: out of the packed one beside it,
// unless it is there. An agent that has no packed one beside it stays as it is.
func Unpack(path, sha256 string) error {
	if err := Keep(path); err != nil {
		return err
	}
	verified.Lock()
	defer verified.Unlock()
	now := func() (v verifiedFile) {
		if fi, err := os.Stat(path); err == nil {
			v = verifiedFile{sha256, fi.Size(), fi.ModTime()}
		}
		return v
	}
	if have, ok := verified.files[path]; ok && have == now() {
		return nil
	}
	err := unpack(path, sha256)
	if v := now(); err == nil && v.sha256 != "" {
		verified.files[path] = v
	}
	return err
}

func unpack(path, digest string) error {
	there := func() bool {
		have, err := digestOf(path)
		return err == nil && have == digest
	}
	if there() {
		return nil
	}
	tgz, err := os.ReadFile(path + PackedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return Unusable(filepath.Dir(path), err)
	}
	p := Packed{TGZ: tgz, Digest: digest}
	return p.unpack(func(agent io.Reader) error {
		return put(path, there, &verifying{Reader: agent, sum: sha256.New(), want: digest})
	})
}

// verifying reads an agent, and fails at its end if it has another sha256.
type verifying struct {
	io.Reader
	sum  hash.Hash
	want string
}

func (v *verifying) Read(p []byte) (n int, err error) {
	n, err = v.Reader.Read(p)
	_, _ = v.sum.Write(p[:n]) // it never fails (hash.Hash)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if have := hex.EncodeToString(v.sum.Sum(nil)); have != v.want {
		return n, fmt.Errorf("the agent in this nodejoin is damaged: its sha256 is %s, not %s", have, v.want)
	}
	return n, io.EOF
}

// digestOf reads a file without holding it in memory.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
