package main

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

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan/render"
)

// renderMark is a file that marks a folder as made by render. It lists the files in the
// folder, so that the next render can remove those that are no longer rendered.
const renderMark = ".nodejoin-render.json"

type renderRecord struct {
	FormatVersion string   `json:"format_version"`
	Files         []string `json:"files"`
}

// renderCommand is one run of render.
type renderCommand struct {
	*app
	out   string // --out
	force bool
}

func newRender(a *app) *cobra.Command {
	x := &renderCommand{app: a}
	c := &cobra.Command{
		Use:   "render [PLAN] --out DIR",
		Short: "Write everything that each node would get into a folder",
		Long: `Writes every file, service definition, registry value, firewall rule and cluster object
that each node would get into DIR/NODE. No host and no cluster is asked. Values that are
not known yet are written as (known after STEP), secrets as (sensitive). The same plan
gives the same files, so the folder can be compared and kept in git.

A folder that is not empty and was not made by render is refused without --force. With
--force its other files are kept.`,
		Example: "  nodejoin render plans/prod --out rendered && diff -r rendered.before rendered",
		RunE:    x.run,
	}
	a.planFlags(c)
	a.untrustedFlag(c)
	a.targetFlags(c)
	c.Flags().StringVar(&x.out, "out", "", "the `folder` to write")
	c.Flags().BoolVar(&x.force, "force", false, "write into a folder that has other files")
	_ = c.MarkFlagDirname("out")
	return c
}

func (x *renderCommand) run(c *cobra.Command, args []string) error {
	if x.out == "" {
		return usageError{c, errors.New("render needs --out: the folder to write, for example\n" +
			"  nodejoin render plans/prod --out rendered")}
	}
	compiled, err := x.load(c.Context(), args)
	if err != nil {
		return err
	}
	files, err := render.Nodes(compiled)
	if err != nil {
		return err
	}
	if err := writeRendered(x.out, files, x.force); err != nil {
		return err
	}
	n := len(compiled.Nodes)
	fmt.Fprintf(x.term.Out, "Rendered %d %s, %d files, into %s.\n", n, plural(n, "node"), len(files), ui.CleanLine(x.out))
	return nil
}

// writeRendered makes dir have the files, and removes those of the last render that are no
// longer rendered. Others have no access, since nodes keep some of the contents private.
// Nothing outside dir is touched, whatever links are in it.
func writeRendered(dir string, files []render.File, force bool) error {
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
	now := renderRecord{FormatVersion: "1", Files: []string{}}
	for _, f := range files {
		now.Files = append(now.Files, f.Path)
	}
	// The mark comes first, so that a folder that is half written is known as ours.
	both := slices.Compact(slices.Sorted(slices.Values(slices.Concat(last.Files, now.Files))))
	if err := writeMark(root, renderRecord{FormatVersion: "1", Files: both}); err != nil {
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

func writeMark(root *os.Root, r renderRecord) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return root.WriteFile(renderMark, append(b, '\n'), 0o600)
}

// lastRendered is the folder's mark, empty if it has none. The error says why the folder
// may not be used.
func lastRendered(root *os.Root, dir string, force bool) (r renderRecord, err error) {
	b, err := root.ReadFile(renderMark)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &r); err != nil || r.FormatVersion != "1" {
			return r, fmt.Errorf("%s is not a list of rendered files; remove it, then use --force",
				filepath.Join(dir, renderMark))
		}
		for _, f := range r.Files {
			if !filepath.IsLocal(f) {
				return r, fmt.Errorf("%s names a file outside the folder: %q", filepath.Join(dir, renderMark), f)
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
