package agentbin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

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
	there := func() bool { return holds(path+p.Form, p.Data) }
	if there() {
		return nil
	}
	return put(path+p.Form, there, bytes.NewReader(p.Data))
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

// Size is the size, in bytes, of the agent of this sha256 at a path that Get returned, whether it is unpacked or not.
func Size(path, sha256 string) (int64, error) {
	if err := Offer(path, sha256, TGZ); err != nil {
		return 0, err
	}
	f, err := os.Open(path + TGZ)
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
	_, size, err := unpacking(TGZ, f)
	return size, err
}

// Offer makes sure that the agent of this sha256 is beside a path that Get returned, packed in this form. What is
// carried as Zstd is packed as TGZ where that is asked for, once; it takes half a second. An agent that is not carried
// in this form otherwise, or not packed at all, stays as it is, and so does one that is unpacked in the cache where it
// cannot be packed: then there is no file of that form.
func Offer(path, sha256, form string) error {
	if err := Keep(path); err != nil || form != TGZ {
		return err
	}
	if _, err := os.Stat(path + Zstd); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return once(path+TGZ, sha256, func() error {
		err := repack(path, sha256)
		if err != nil && holdsAgent(path, "", sha256) {
			err = nil // it can be sent as it is
		}
		return err
	})
}

// repacking is the level of gzip at which an agent is packed again: 0.4 s, and 0.4 % more than with BestCompression,
// which takes 1.5 s.
const repacking = 8

// repack packs an agent as TGZ that is beside a path as Zstd.
func repack(path, digest string) error {
	there := func() bool { return holdsAgent(path+TGZ, TGZ, digest) }
	if there() {
		return nil
	}
	data, err := os.ReadFile(path + Zstd)
	if err != nil {
		return Unusable(filepath.Dir(path), err)
	}
	return Packed{Form: Zstd, Data: data, Digest: digest}.unpack(func(agent io.Reader) error {
		b, err := io.ReadAll(agent)
		if err != nil {
			return err
		}
		if b, err = packTGZ(b, repacking); err != nil {
			return err
		}
		return put(path+TGZ, there, bytes.NewReader(b))
	})
}

// verified are files of agents whose content this process has hashed: many hosts may need one at once.
var verified = struct {
	sync.Mutex
	files map[string]verifiedFile // by path
}{files: map[string]verifiedFile{}}

// verifiedFile is what a file was when the agent in it had this sha256.
type verifiedFile struct {
	sha256   string
	size     int64
	modified time.Time
}

// once has write make sure that the agent of this sha256 is in a file, unless that is known of the file as it is.
func once(path, sha256 string, write func() error) error {
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
	err := write()
	if v := now(); err == nil && v.sha256 != "" {
		verified.files[path] = v
	}
	return err
}

// Unpack makes sure that the agent of this sha256 is at a path that Get returned: out of a packed one beside it,
// unless it is there. An agent that has no packed one beside it stays as it is.
func Unpack(path, sha256 string) error {
	if err := Keep(path); err != nil {
		return err
	}
	return once(path, sha256, func() error { return unpack(path, sha256) })
}

func unpack(path, digest string) error {
	there := func() bool { return holdsAgent(path, "", digest) }
	if there() {
		return nil
	}
	var failed error
	for _, form := range []string{Zstd, TGZ} {
		data, err := os.ReadFile(path + form)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Unusable(filepath.Dir(path), err)
		}
		p := Packed{Form: form, Data: data, Digest: digest}
		err = p.unpack(func(agent io.Reader) error { return put(path, there, agent) })
		if err == nil {
			return nil
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// holdsAgent reports whether the agent of this digest is in a file of this form; "" = unpacked. It does not hold the
// agent in memory.
func holdsAgent(file, form, digest string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	agent := io.Reader(f)
	if form != "" {
		if agent, _, err = unpacking(form, f); err != nil {
			return false
		}
	}
	sum := sha256.New()
	_, err = io.Copy(sum, agent)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == digest
}

// packedSums are the digests of packed agents that this process has read, by path.
var packedSums sync.Map // string -> func() (string, error)

// PackedDigest is the sha256, in lower-case hex, of a packed agent in the cache, whose content does not change.
func PackedDigest(path string) (string, error) {
	read, _ := packedSums.LoadOrStore(path, sync.OnceValues(func() (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		return hex.EncodeToString(sum.Sum(nil)), err
	}))
	sum, err := read.(func() (string, error))()
	if err != nil {
		packedSums.Delete(path)
	}
	return sum, err
}
