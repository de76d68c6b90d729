package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// file of an archive.
type file struct {
	name string
	mode fs.FileMode
	data []byte
	// owner is the number of its user and group, in an image.
	owner int
}

// tar writes the file, or a folder, whose name ends in a slash.
func (f file) tar(t *tar.Writer, at time.Time) error {
	h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), Uid: f.owner, Gid: f.owner,
		ModTime: at, Format: tar.FormatUSTAR}
	if f.mode.IsDir() {
		h.Typeflag = tar.TypeDir
	}
	if f.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(f.data)
	return err
}

func tarred(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	gz, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(gz)
	for _, f := range files {
		if err := f.tar(t, at); err != nil {
			return nil, err
		}
	}
	err = errJoin(t.Close, gz.Close)
	return out.Bytes(), err
}

func zipped(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// errJoin closes in order and reports what failed first.
func errJoin(closers ...func() error) error {
	var errs []error
	for _, c := range closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
