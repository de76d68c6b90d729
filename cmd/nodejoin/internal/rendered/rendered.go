// Package rendered keeps a folder of rendered files: it writes those of a plan, and removes those that the plan no
// longer has.
package rendered

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"nodejoin/plan/render"
)

// markName is a file that marks a folder as made by render. It lists the files in the
// folder, so that the next render can remove those that are no longer rendered.
const markName = ".nodejoin-render.json"

type record struct {
	FormatVersion string   `json:"format_version"`
	Files         []string `json:"files"`
}

// Write makes dir have the files, and removes those of the last render that are no
// longer rendered. Others have no access, since nodes keep some of the contents private.
// Nothing outside dir is touched, whatever links are in it.
func Write(dir string, files []render.File, force bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	last, err := lastRendered(root, dir, force)
	if err != nil {
		return err
	}
	now := record{FormatVersion: "1", Files: []string{}}
	for _, f := range files {
		now.Files = append(now.Files, f.Path)
	}
	// The mark comes first, so that a folder that is half written is known as ours.
	both := slices.Compact(slices.Sorted(slices.Values(slices.Concat(last.Files, now.Files))))
	if err := writeMark(root, record{FormatVersion: "1", Files: both}); err != nil {
		return err
	}
	for _, f := range files {
		if err := writeIfChanged(root, f); err != nil {
			return err
		}
	}
	for _, f := range last.Files {
		if slices.Contains(now.Files, f) {
			continue
		}
		if err := removeWithFolders(root, f); err != nil {
			return err
		}
	}
	return writeMark(root, now)
}

func writeIfChanged(root *os.Root, f render.File) error {
	if have, err := root.ReadFile(f.Path); err == nil && bytes.Equal(have, f.Data) {
		return nil
	}
	if err := root.MkdirAll(path.Dir(f.Path), 0o700); err != nil {
		return err
	}
	if err := root.WriteFile(f.Path, f.Data, 0o600); err != nil {
		return err
	}
	return root.Chmod(f.Path, 0o600) // also one that was there
}

// removeWithFolders removes a file and the folders above it that are empty then.
func removeWithFolders(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if err := root.Remove(d); err != nil { // it is not empty
			return nil //nolint:nilerr // so are those above it
		}
	}
	return nil
}

func writeMark(root *os.Root, r record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return root.WriteFile(markName, append(b, '\n'), 0o600)
}

// lastRendered is the folder's mark, empty if it has none. The error says why the folder
// may not be used.
func lastRendered(root *os.Root, dir string, force bool) (r record, err error) {
	b, err := root.ReadFile(markName)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &r); err != nil || r.FormatVersion != "1" {
			return r, fmt.Errorf("%s is not a list of rendered files; remove it, then use --force",
				filepath.Join(dir, markName))
		}
		for _, f := range r.Files {
			if !filepath.IsLocal(f) {
				return r, fmt.Errorf("%s names a file outside the folder: %q", filepath.Join(dir, markName), f)
			}
		}
		return r, nil
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return r, err
	}
	if len(entries) > 0 && !force {
		return r, fmt.Errorf("%s is not empty and was not made by render; name another folder, or use --force", dir)
	}
	return r, nil
}
