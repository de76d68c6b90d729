package agentbin

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Forms of a packed agent, by the end of the name of its file, which lies beside the agent in the cache.
const (
	// TGZ is a tar.gz with one file, PackedName: the one form that every machine can unpack without a program of ours.
	// Windows has tar.exe since 2018, which reads gzip in all its versions.
	TGZ = ".tgz"
	// Zstd is the agent alone (RFC 8878): a tenth smaller, and a Linux machine that has zstd unpacks it in half the
	// time.
	Zstd       = ".zst"
	PackedName = "agent"
)

// Carried is the form in which a release carries the agents of a system.
func Carried(os string) string {
	if os == "linux" {
		return Zstd
	}
	return TGZ
}

// Packed is an agent as a release carries it.
type Packed struct {
	Form   string // TGZ or Zstd
	Data   []byte
	Digest string // sha256 of the agent, lower-case hex
}

// unpack gives the agent in p to write. At its end it is an error if it is another one.
func (p Packed) unpack(write func(io.Reader) error) error {
	agent, _, err := unpacking(p.Form, bytes.NewReader(p.Data))
	if err != nil {
		return err
	}
	return write(&verifying{Reader: agent, sum: sha256.New(), want: p.Digest})
}

// unpacking reads the agent in a packed one. size is in bytes; -1 = this form does not say it.
func unpacking(form string, packed io.Reader) (agent io.Reader, size int64, err error) {
	if form == Zstd {
		// Of one thread, which needs no Close.
		if agent, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1)); err != nil {
			return nil, 0, fmt.Errorf("unpack the agent: %w", err)
		}
		return agent, -1, nil
	}
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, 0, fmt.Errorf("unpack the agent: %w", err)
	}
	z.Multistream(false)
	r := tar.NewReader(z)
	header, err := r.Next()
	if err != nil {
		return nil, 0, fmt.Errorf("unpack the agent: %w", err)
	}
	return &toEnd{r, z}, header.Size, nil
}

// toEnd reads a file of an archive, then the rest of the archive, so that one that is cut is an error.
type toEnd struct {
	file io.Reader
	rest io.Reader
}

func (r *toEnd) Read(p []byte) (n int, err error) {
	n, err = r.file.Read(p)
	if errors.Is(err, io.EOF) {
		if _, cut := io.Copy(io.Discard, r.rest); cut != nil {
			return n, fmt.Errorf("unpack the agent: %w", cut)
		}
	}
	return n, err
}

// packTGZ packs an agent as TGZ, at a level of gzip. The same agent gives the same bytes.
func packTGZ(agent []byte, level int) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: PackedName, Mode: 0o700, Size: int64(len(agent))})
	if err == nil {
		_, err = t.Write(agent)
	}
	if err := errors.Join(err, t.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack the agent: %w", err)
	}
	return out.Bytes(), nil
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
