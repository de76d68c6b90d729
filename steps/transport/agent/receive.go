package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"nodejoin/steps/transport/wire"
)

// Receive writes what comes from r to the temporary file of an artifact: parts after a head of wire.FrameHead. Several
// programs may receive parts of one artifact; blob_begin and blob_end come before and after them.
func Receive(r io.Reader, system, dataDir string, blob wire.Blob) error {
	if !blob.Valid() {
		return errBlobName
	}
	b := &blobs{os: system, dir: BlobDir(system, dataDir)}
	path := b.temp(blob.Digest)
	if err := place(path, nil, 0, blob.Size); err != nil {
		return err
	}
	var head [wire.FrameHead]byte
	for buf := []byte(nil); ; {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		at, n := int64(binary.BigEndian.Uint64(head[:])), int64(binary.BigEndian.Uint32(head[8:]))
		if at < 0 || n > wire.InFlight || at > blob.Size-n {
			return fmt.Errorf("%d bytes at %d are not a part of an artifact of %d bytes", n, at, blob.Size)
		}
		if int64(len(buf)) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(r, buf[:n]); err != nil {
			return err
		}
		if err := place(path, buf[:n], at, blob.Size); err != nil {
			return err
		}
	}
}

// place writes a part of a file, which has at most size bytes then. It is open no longer than that: Windows renames no
// file that a program has open, and one that nobody talks to any more may wait for minutes.
func place(path string, part []byte, at, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() > size {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.WriteAt(part, at)
	}
	return errors.Join(err, f.Close())
}
