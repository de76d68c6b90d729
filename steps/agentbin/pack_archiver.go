//go:build !embedagent

package agentbin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"

	"github.com/mholt/archiver/v4"
)

// packing is the form of a packed agent. A release, whose agents are packed already, does not link what packs them.
var packing = archiver.Archive{Compression: archiver.Gz{CompressionLevel: gzip.BestCompression},
	Archival: archiver.Tar{}}

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
