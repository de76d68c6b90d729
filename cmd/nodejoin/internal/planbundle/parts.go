package planbundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// unfinished ends the names of files while they are written.
const unfinished = ".part"

// partName is the name of a part of a bundle, counted from 0: prod.tar.001 is the first.
func partName(path string, n int) string { return fmt.Sprintf("%s.%03d", path, n+1) }

// output is a file that may be in parts, while it is written. It appears under its name when it is complete.
type output struct {
	path  string
	split int64 // bytes of a part; 0 = one file
	at    int64 // where the next byte goes
	file  *os.File
	open  int // the part that file is
}

// name is the name of a part when it is complete.
func (o *output) name(n int) string {
	if o.split == 0 {
		return o.path
	}
	return partName(o.path, n)
}

// place is the part that has an offset, and where in it.
func (o *output) place(off int64) (n int, at int64) {
	if o.split == 0 {
		return 0, off
	}
	return int(off / o.split), off % o.split
}

// use makes the file of a part the open one.
func (o *output) use(n int) error {
	if o.file != nil && o.open == n {
		return nil
	}
	if err := o.Close(); err != nil {
		return err
	}
	f, err := os.OpenFile(o.name(n)+unfinished, os.O_RDWR|os.O_CREATE, 0o600)
	o.file, o.open = f, n
	return err
}

// Close writes to the disk what is open.
func (o *output) Close() error {
	if o.file == nil {
		return nil
	}
	err := errors.Join(o.file.Sync(), o.file.Close())
	o.file = nil
	return err
}

// Write writes at the end.
func (o *output) Write(p []byte) (done int, err error) {
	for len(p) > 0 {
		part, at := o.place(o.at)
		if err := o.use(part); err != nil {
			return done, err
		}
		n := len(p)
		if o.split > 0 {
			n = int(min(int64(n), o.split-at))
		}
		n, err := o.file.WriteAt(p[:n], at)
		o.at, done, p = o.at+int64(n), done+n, p[n:]
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Read reads what an earlier run has written, from where the next byte goes; that is then behind it.
func (o *output) Read(p []byte) (int, error) {
	part, at := o.place(o.at)
	if err := o.use(part); err != nil {
		return 0, err
	}
	if o.split > 0 {
		p = p[:min(int64(len(p)), o.split-at)]
	}
	n, err := o.file.ReadAt(p, at)
	if o.at += int64(n); n > 0 {
		err = nil
	}
	return n, err
}

// cut drops what an earlier run has written from an offset on.
func (o *output) cut(off int64) error {
	part, at := o.place(off)
	o.at = off
	if err := o.use(part); err != nil {
		return err
	}
	for n := part + 1; o.split > 0; n++ {
		if err := os.Remove(o.name(n) + unfinished); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
	}
	return o.file.Truncate(at)
}

// finish gives the file its name, and removes what an earlier bundle of the name has more. The first part comes last:
// where it is, all are.
func (o *output) finish() error {
	last := o.open
	if err := o.Close(); err != nil {
		return err
	}
	old, err := bundleFiles(o.path)
	if err != nil {
		return err
	}
	for n := last; n >= 0; n-- {
		if err := os.Rename(o.name(n)+unfinished, o.name(n)); err != nil {
			return err
		}
		old = slices.DeleteFunc(old, func(name string) bool { return name == o.name(n) })
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

var partSuffix = regexp.MustCompile(`^[0-9]{3,}$`)

// bundleFiles are the files that a bundle has, those of other numbers of parts too.
func bundleFiles(path string) (out []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	base := filepath.Base(path)
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), base)
		if ok && e.Type().IsRegular() && (rest == "" || rest[0] == '.' && partSuffix.MatchString(rest[1:])) {
			out = append(out, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return out, nil
}

// input is a bundle that is read, in one file or in parts.
type input struct {
	path  string
	files []string
	sizes []int64
	at    int64
	file  *os.File
	open  int
}

// openInput finds the files of a bundle.
func openInput(path string) (*input, error) {
	in := &input{path: path}
	fi, err := os.Stat(path)
	if err == nil {
		in.files, in.sizes = []string{path}, []int64{fi.Size()}
		return in, nil
	}
	for n := 0; errors.Is(err, fs.ErrNotExist); n++ {
		fi, other := os.Stat(partName(path, n))
		if errors.Is(other, fs.ErrNotExist) {
			break
		}
		if other != nil {
			return nil, other
		}
		in.files, in.sizes = append(in.files, partName(path, n)), append(in.sizes, fi.Size())
	}
	if len(in.files) == 0 {
		return nil, err
	}
	return in, nil
}

// Read reads on, from part to part.
func (in *input) Read(p []byte) (int, error) {
	off, n := in.at, 0
	for n < len(in.files) && off >= in.sizes[n] {
		off, n = off-in.sizes[n], n+1
	}
	if n == len(in.files) {
		return 0, io.EOF
	}
	if in.file == nil || in.open != n {
		in.Close()
		f, err := os.Open(in.files[n])
		if err != nil {
			return 0, err
		}
		in.file, in.open = f, n
	}
	got, err := in.file.ReadAt(p[:min(int64(len(p)), in.sizes[n]-off)], off)
	if in.at += int64(got); got > 0 {
		err = nil
	}
	return got, err
}

// Close ends reading. The files were only read.
func (in *input) Close() {
	if in.file != nil {
		_ = in.file.Close()
		in.file = nil
	}
}

// incomplete says why a bundle ends before its end.
func (in *input) incomplete() string {
	last := len(in.files) - 1
	if in.files[last] == in.path {
		return fmt.Sprintf("it is cut: it ends after %d bytes", in.sizes[last])
	}
	for n, size := range in.sizes[:last] {
		if size < in.sizes[0] || size < in.sizes[last] {
			return fmt.Sprintf("the part %s is cut: it has %d bytes", filepath.Base(in.files[n]), size)
		}
	}
	next := filepath.Base(partName(in.path, last+1))
	if last > 0 && in.sizes[last] < in.sizes[0] {
		return fmt.Sprintf("the part %s is cut: it has %d bytes", filepath.Base(in.files[last]), in.sizes[last])
	}
	return fmt.Sprintf("the part %s is missing", next)
}

// Is reports whether a path is that of a bundle, in one file or in parts.
func Is(path string) bool {
	in, err := openInput(path)
	if err != nil {
		return false
	}
	defer in.Close()
	first := make([]byte, len(layoutFile)+1)
	_, err = io.ReadFull(in, first)
	return err == nil && string(first) == layoutFile+"\x00"
}
