package agentbin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
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

// keep stores an agent in the cache, and beside it the same one packed.
func keep(dir, goos, goarch string, p Packed) (path string, err error) {
	path = dir + string(os.PathSeparator) + fileName(goos, goarch, p.Digest)
	have, err := digestOf(path)
	if err != nil || have != p.Digest {
		if err := p.unpack(func(agent io.Reader) error { return writeFile(path, agent) }); err != nil {
			return "", err
		}
		if have, err = digestOf(path); err != nil || have != p.Digest {
			return "", fmt.Errorf("the agent in this nodejoin is damaged: its sha256 is %s, not %s (%w)", have, p.Digest, err)
		}
	}
	if fi, err := os.Stat(path + PackedSuffix); err == nil && fi.Size() == int64(len(p.TGZ)) {
		return path, nil
	}
	return path, writeFile(path+PackedSuffix, bytes.NewReader(p.TGZ))
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
