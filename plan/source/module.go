package source

import (
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
)

// Module returns the files as a module in the folder dir sees them: its paths begin there.
func (s *Files) Module(dir string) *Files {
	inner := *s
	inner.base, inner.module = dir, dir
	return &inner
}

// Unpacked returns the files as a module sees them that was unpacked into the folder dir: it has no others. shown is
// how places in them are named.
func (s *Files) Unpacked(dir, shown string) *Files {
	inner := *s
	inner.tree = dir
	s.modules.trees = append(s.modules.trees, unpackedTree{dir, shown})
	return &inner
}

// named is the name of a module's file, absolute, in the form that names of the plan's files have.
func (s *Files) named(file string) string {
	rel, err := filepath.Rel(s.Dir, file)
	if err != nil || s.tree != "" || filepath.IsAbs(s.given) {
		return file
	}
	return filepath.Join(s.given, rel)
}

// ReadModule reads the files of the module in the folder dir, once. They are shown in diagnostics with those of the
// plan.
func (s *Files) ReadModule(dir string) ([]ModuleFile, error) {
	if have, ok := s.modules.read[dir]; ok {
		return have, nil
	}
	names, err := Find(dir)
	if err != nil {
		return nil, err
	}
	var out []ModuleFile
	for _, name := range names {
		name = s.named(name)
		src, err := s.Read(name)
		if err != nil {
			return nil, err
		}
		s.modules.of[name] = dir
		if g := NotText(src, name); g != nil {
			s.Parser.AddFile(name, &hcl.File{Body: hcl.EmptyBody(), Bytes: src})
			out = append(out, ModuleFile{Wrong: hcl.Diagnostics{g}})
			continue
		}
		f, wrong := ParseFile(src, name)
		s.Parser.AddFile(name, f)
		if !wrong.HasErrors() {
			wrong = append(wrong, DuplicateKeys(f.Body, s.Place)...)
		}
		out = append(out, ModuleFile{Body: f.Body, Wrong: wrong})
	}
	s.modules.read[dir] = out
	return out, nil
}
