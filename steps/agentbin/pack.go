package agentbin

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
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

// Pack packs an agent. The same agent gives the same bytes.
func Pack(agent []byte) (Packed, error) {
	var out bytes.Buffer
	gz, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return Packed{}, err
	}
	t := tar.NewWriter(gz)
	if err := t.WriteHeader(&tar.Header{Name: PackedName, Mode: 0o700, Size: int64(len(agent))}); err != nil {
		return Packed{}, err
	}
	for _, step := range []func() error{
		func() error { _, err := t.Write(agent); return err }, t.Close, gz.Close,
	} {
		if err := step(); err != nil {
			return Packed{}, err
		}
	}
	sum := sha256.Sum256(agent)
	return Packed{TGZ: out.Bytes(), Digest: hex.EncodeToString(sum[:])}, nil
}

// open reads the agent in p.
func (p Packed) open() (io.Reader, error) {
	gz, err := gzip.NewReader(bytes.NewReader(p.TGZ))
	if err != nil {
		return nil, fmt.Errorf("unpack the agent: %w", err)
	}
	t := tar.NewReader(gz)
	if _, err := t.Next(); err != nil {
		return nil, fmt.Errorf("unpack the agent: %w", err)
	}
	return t, nil
}

// keep stores an agent in the cache, and beside it the same one packed.
func keep(dir, goos, goarch string, p Packed) (path string, err error) {
	path = dir + string(os.PathSeparator) + fileName(goos, goarch, p.Digest)
	have, err := digestOf(path)
	if err != nil || have != p.Digest {
		agent, err := p.open()
		if err != nil {
			return "", err
		}
		if err := writeFile(path, agent); err != nil {
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
