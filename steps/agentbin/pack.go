package agentbin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mholt/archiver/v4"
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

// packing is the form of a packed agent.
var packing = archiver.Archive{Compression: archiver.Gz{CompressionLevel: gzip.BestCompression},
	Archival: archiver.Tar{}, Extraction: archiver.Tar{}}

// member is the file in it.
type member struct {
	*bytes.Reader
	fs.FileInfo
}

func (m member) Size() int64                { return m.FileInfo.Size() }
func (m member) Stat() (fs.FileInfo, error) { return m.FileInfo, nil }
func (m member) Close() error               { return nil }

// Pack packs an agent. The same agent gives the same bytes.
func Pack(ctx context.Context, agent []byte) (Packed, error) {
	info := (&tar.Header{Typeflag: tar.TypeReg, Name: PackedName, Mode: 0o700, Size: int64(len(agent))}).FileInfo()
	var out bytes.Buffer
	err := packing.Archive(ctx, &out, []archiver.FileInfo{{FileInfo: info, NameInArchive: PackedName,
		Open: func() (fs.File, error) { return member{bytes.NewReader(agent), info}, nil }}})
	if err != nil {
		return Packed{}, fmt.Errorf("pack the agent: %w", err)
	}
	sum := sha256.Sum256(agent)
	return Packed{TGZ: out.Bytes(), Digest: hex.EncodeToString(sum[:])}, nil
}

// unpack gives the agent in p to write.
func (p Packed) unpack(ctx context.Context, write func(io.Reader) error) error {
	err := packing.Extract(ctx, bytes.NewReader(p.TGZ),
		func(_ context.Context, f archiver.FileInfo) error {
			agent, err := f.Open()
			if err != nil {
				return err
			}
			return errors.Join(write(agent), agent.Close())
		})
	if err != nil {
		return fmt.Errorf("unpack the agent: %w", err)
	}
	return nil
}

// keep stores an agent in the cache, and beside it the same one packed.
func keep(ctx context.Context, dir, goos, goarch string, p Packed) (path string, err error) {
	path = dir + string(os.PathSeparator) + fileName(goos, goarch, p.Digest)
	have, err := digestOf(path)
	if err != nil || have != p.Digest {
		if err := p.unpack(ctx, func(agent io.Reader) error { return writeFile(path, agent) }); err != nil {
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
