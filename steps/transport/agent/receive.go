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
	f, err := os.OpenFile(b.temp(blob.Digest), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(receive(r, f, blob.Size), f.Close())
}

func receive(r io.Reader, f *os.File, size int64) error {
	fi, err := f.Stat()
	if err == nil && fi.Size() > size {
		err = f.Truncate(size)
	}
	var head [wire.FrameHead]byte
	for buf := []byte(nil); err == nil; {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		at, n := int64(binary.BigEndian.Uint64(head[:])), int64(binary.BigEndian.Uint32(head[8:]))
		if at < 0 || n > wire.InFlight || at > size-n {
			return fmt.Errorf("%d bytes at %d are not a part of an artifact of %d bytes", n, at, size)
		}
		if int64(len(buf)) < n {
			buf = make([]byte, n)
		}
		if _, err = io.ReadFull(r, buf[:n]); err == nil {
			_, err = f.WriteAt(buf[:n], at)
		}
	}
	return err
}
