package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/bmatcuk/doublestar/v4"
)

var errTooMany = errors.New("too many files")

// Glob returns the names of the files below dir that match a pattern, with "**" for any folders, relative to dir and
// sorted. dir is in the folder that relative paths begin at, and links are not followed, so that nothing outside of
// it is seen.
func (s *Files) Glob(dir, pattern string, most int) ([]string, error) {
	if err := s.within(s.base); err != nil {
		return nil, err
	}
	below, err := filepath.Rel(s.base, s.Abs(dir))
	if err != nil || !filepath.IsLocal(below) {
		return nil, fmt.Errorf("%s lies outside the plan's folder, and fileset lists only files in it", dir)
	}
	if !doublestar.ValidatePattern(pattern) || path.IsAbs(pattern) || !fs.ValidPath(path.Clean(pattern)) {
		return nil, fmt.Errorf("%q is not a pattern of names below a folder; write for example \"*.yaml\" or \"**/*.yaml\"",
			pattern)
	}
	root, err := os.OpenRoot(s.base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	below = filepath.ToSlash(below)
	if fi, err := root.Stat(below); errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		return nil, fmt.Errorf("%s is not a folder; relative paths begin at the folder of the plan or module", dir)
	} else if err != nil {
		return nil, fmt.Errorf("%s cannot be listed: %w", dir, err)
	}
	tree, err := fs.Sub(root.FS(), below)
	if err != nil {
		return nil, err
	}
	var out []string
	err = doublestar.GlobWalk(tree, path.Clean(pattern), func(name string, d fs.DirEntry) error {
		if len(out) == most {
			return errTooMany
		}
		if d.Type().IsRegular() {
			out = append(out, name)
		}
		return nil
	}, doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	if errors.Is(err, errTooMany) {
		return nil, fmt.Errorf("more than %d files match", most)
	}
	slices.Sort(out)
	for _, name := range out {
		s.Noted(filepath.Join(s.base, below, name))
	}
	return out, err
}
