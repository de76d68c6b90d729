package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// Suffix ends the names of plan files.
const Suffix = ".join.hcl"

// MaxFile bounds one plan file (bytes): more is a mistake, not a plan.
const MaxFile = 8 << 20

// Files are the files of one plan: where they are, and what was parsed of them.
type Files struct {
	Dir    string // absolute folder of the plan
	given  string // Dir as it was given
	base   string // absolute; where relative paths begin
	Parser *hclparse.Parser
	// Confined: nothing outside Dir is read, whatever paths and links the plan has.
	Confined bool
	// Root is the folder that has the whole plan: nothing outside it is read as a part of the plan. "" = any file may
	// be.
	Root string
	// Own is the folder that relative paths to files of this machine start from; "" = as other paths.
	Own string
	// Note is told each file that is a part of the plan and that it does not name by an absolute path, with its absolute
	// path; nil = nobody wants to know.
	Note func(name string)

	absolute map[string]bool // paths that the plan names as they are, on this machine only
	// Relative are the names of files as Place shows them.
	Relative map[string]string
	module   string // absolute folder of the module whose files these are; "" = the plan's
	tree     string // absolute folder that the module was unpacked into; "" = it is beside the plan
	modules  *modules
}

// NewFiles returns the files in dir, where relative paths of the plan begin.
func NewFiles(dir string) (*Files, error) {
	s := &Files{given: dir, Parser: hclparse.NewParser(), Relative: map[string]string{}, modules: newModules(),
		absolute: map[string]bool{}}
	var err error
	s.Dir, err = filepath.Abs(dir)
	s.base = s.Dir
	return s, err
}

// Place returns "plan.join.hcl:12,3", with the name of Shown.
func (s *Files) Place(r hcl.Range) string {
	return s.Shown(r.Filename) + ":" + strconv.Itoa(r.Start.Line) + "," + strconv.Itoa(r.Start.Column)
}

// Shown is the name of a file, with slashes: from the plan's folder, or in an unpacked module. The files of a plan and
// its modules have the same names on all machines.
func (s *Files) Shown(file string) string {
	name, ok := s.Relative[file]
	if !ok {
		name = file
		if abs, err := filepath.Abs(name); err == nil {
			rel, err := filepath.Rel(s.Dir, abs)
			if err == nil && (filepath.IsLocal(rel) || s.modules.of[file] != "") {
				name = filepath.ToSlash(rel)
			}
			for _, t := range s.modules.trees {
				if rel, err := filepath.Rel(t.dir, abs); err == nil && filepath.IsLocal(rel) {
					name = t.shown + "/" + filepath.ToSlash(rel)
				}
			}
		}
		s.Relative[file] = name
	}
	return name
}

// Abs makes a path of the plan absolute; relative ones begin at its folder.
func (s *Files) Abs(path string) string {
	if filepath.IsAbs(path) {
		path = filepath.Clean(path)
		if s.absolute != nil {
			s.absolute[path] = true
		}
		return path
	}
	return filepath.Join(s.base, path)
}

// Read is ReadFile for a file that is a part of the plan.
func (s *Files) Read(name string) ([]byte, error) {
	err := s.within(name)
	if err == nil && s.Root != "" && s.tree == "" && (s.absolute[name] || !below(s.Root, name)) {
		err = fmt.Errorf("%s is not in the bundle, which has the files that the plan names by relative paths; put it "+
			"beside the plan, and name it by a relative path", name)
	}
	if err != nil {
		return nil, err
	}
	src, err := ReadFile(name)
	if err == nil {
		s.Noted(name)
	}
	return src, err
}

// ReadOwn is ReadFile for a file of this machine that the plan names and is not a part of it: a key, a kubeconfig.
func (s *Files) ReadOwn(name string) ([]byte, error) {
	if err := s.confined(name); err != nil {
		return nil, err
	}
	return ReadFile(name)
}

// Noted notes a file as a part of the plan.
func (s *Files) Noted(name string) {
	if s.Note == nil || s.tree != "" || s.absolute[name] {
		return
	}
	if abs, err := filepath.Abs(name); err == nil {
		s.Note(abs)
	}
}

// below reports whether a path lies in a folder.
func below(dir, name string) bool {
	abs, err := filepath.Abs(name)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, abs)
	return err == nil && filepath.IsLocal(rel)
}

// Stat describes what is at a path that the plan names.
func (s *Files) Stat(name string) (fs.FileInfo, error) {
	if err := s.within(name); err != nil {
		return nil, err
	}
	return os.Stat(name)
}

// within refuses what is not a part of the plan: what lies outside the plan's folder, where the plan is confined to
// it, and for an unpacked module what is not in its archive.
func (s *Files) within(name string) error {
	if err := s.own(name); err != nil {
		return err
	}
	return s.confined(name)
}

// own refuses what lies outside the files of an unpacked module.
func (s *Files) own(name string) error {
	if s == nil || s.tree == "" || below(s.tree, name) {
		return nil
	}
	return fmt.Errorf("%s lies outside the module, which reads only the files of its archive", name)
}

// confined refuses what lies outside the plan's folder, where the plan is confined to it. One that is not there is
// outside of it by its path alone.
func (s *Files) confined(name string) error {
	if s == nil || !s.Confined {
		return nil
	}
	dir, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return err
	}
	at, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	// A folder above the plan's may be a link; what is below the plan's folder is resolved from there.
	if rel, err := filepath.Rel(s.Dir, at); err == nil && filepath.IsLocal(rel) {
		at = filepath.Join(dir, rel)
	}
	real, err := filepath.EvalSymlinks(at)
	if errors.Is(err, fs.ErrNotExist) {
		real, err = at, nil
	}
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(dir, real); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s lies outside the plan's folder, and with --untrusted nothing there is read", name)
	}
	return nil
}

// Home is the path of a file of this machine. It may begin with "~/", the user's home folder.
func (s *Files) Home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	if s.Own != "" && !filepath.IsAbs(path) {
		return filepath.Join(s.Own, path)
	}
	return s.Abs(path)
}

// Find names the files of a plan: path itself, or the plan files in it, sorted.
func Find(path string) ([]string, error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist; name a folder with *%s files, or one such file", path, Suffix)
	case err != nil:
		return nil, err
	case !fi.IsDir():
		if !strings.HasSuffix(path, Suffix) {
			return nil, fmt.Errorf("%s does not end in %s; rename it, so that it is found together with its folder", path,
				Suffix)
		}
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), Suffix) && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, noFilesError{path}
	}
	slices.Sort(out)
	return out, nil
}

// ErrNoFiles is in the error of Find for a folder without plan files.
var ErrNoFiles = errors.New("no plan files")

type noFilesError struct{ path string }

func (e noFilesError) Error() string {
	return fmt.Sprintf("%s holds no file that ends in %s; name the folder of a plan, or write a first one with "+
		"'nodejoin init'", e.path, Suffix)
}

func (e noFilesError) Is(target error) bool { return target == ErrNoFiles }

// ReadFile reads a regular file of at most MaxFile bytes. Devices and pipes,
// which may never end, are refused.
func ReadFile(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return ReadStream(name)
}

// ReadStream reads at most MaxFile bytes of whatever name is.
func ReadStream(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		err = fmt.Errorf("%s has more than %d bytes, which is the most for a file of a plan", name, MaxFile)
	}
	return b, err
}

// NotText says where src is not UTF-8 text with lines; nil when it is.
func NotText(src []byte, name string) *hcl.Diagnostic {
	if bytes.IndexByte(src, '\r') >= 0 && bytes.IndexByte(src, '\n') < 0 {
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "not a text file",
			Subject: &hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos},
			Detail: "The lines of the file end in CR alone, so that a comment would reach to the end of the file. Save it " +
				"with the line ends LF or CRLF."}
	}
	if utf8.Valid(src) {
		return nil
	}
	at := hcl.InitialPos
	for rest := src; ; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n <= 1 {
			break
		}
		at.Byte, at.Column = at.Byte+n, at.Column+1
		if r == '\n' {
			at.Line, at.Column = at.Line+1, 1
		}
		rest = rest[n:]
	}
	end := at
	end.Byte, end.Column = at.Byte+1, at.Column+1
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "not a text file", Subject: &hcl.Range{Filename: name,
		Start: at, End: end},
		Detail: "The file is not UTF-8 text from here on. Save it as UTF-8; Windows PowerShell's > and Out-File write " +
			"UTF-16 unless told otherwise."}
}
