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

// renderMark is the file by which a folder is known as one that render made. It
// lists the files in it, so that the next render removes what is no more.
const renderMark = ".nodejoin-render.json"

type renderRecord struct {
	FormatVersion string   `json:"format_version"`
	Files         []string `json:"files"`
}

func newRender(a *app) *cobra.Command {
	var out string
	var force bool
	c := &cobra.Command{
		Use:   "render [PLAN] --out DIR",
		Short: "Write what every node would get into a folder",
		Long: `Writes every file, service definition, registry value, firewall rule and cluster
object that each node would get into DIR/NODE. No host and no cluster is asked.
What is known only later is written as (known after STEP), secrets as (sensitive).
The same plan gives the same files, so the folder can be compared and kept in git.

A folder that is not empty and was not made by render is refused without --force.
With --force its other files stay as they are.`,
		Example: "  nodejoin render plans/prod --out rendered && diff -r rendered.before rendered",
	}
	a.planFlags(c)
	a.targetFlags(c)
	c.Flags().StringVar(&out, "out", "", "the `folder` to write")
	c.Flags().BoolVar(&force, "force", false, "write into a folder that has other files in it")
	_ = c.MarkFlagDirname("out")
	c.RunE = func(c *cobra.Command, args []string) error {
		if out == "" {
			return usageError{c, errors.New("render needs --out: the folder to write, for example\n  nodejoin render plans/prod --out rendered")}
		}
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		files, err := render.Nodes(compiled)
		if err != nil {
			return err
		}
		if err := writeRendered(out, files, force); err != nil {
			return err
		}
		fmt.Fprintf(a.term.Out, "Rendered %d %s, %d files, into %s.\n", len(compiled.Nodes), plural(len(compiled.Nodes), "node"), len(files), ui.CleanLine(out))
		return nil
	}
	return c
}

// writeRendered makes dir hold the files, and removes those of the last render that
// are no more. Nothing outside dir is touched, whatever links are in it.
func writeRendered(dir string, files []render.File, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
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
	// The mark is first: a folder that is half written is known as ours.
	marked := renderRecord{FormatVersion: "1", Files: slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(last.Files), now.Files...))))}
	if err := writeMark(root, marked); err != nil {
		return err
	}
	for _, f := range files {
		if have, err := root.ReadFile(f.Path); err == nil && bytes.Equal(have, f.Data) {
			continue
		}
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(f.Path, f.Data, 0o644); err != nil {
			return err
		}
	}
	for _, f := range last.Files {
		if slices.Contains(now.Files, f) {
			continue
		}
		if err := root.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for d := path.Dir(f); d != "."; d = path.Dir(d) {
			if root.Remove(d) != nil {
				break // it holds something else
			}
		}
	}
	return writeMark(root, now)
}

func writeMark(root *os.Root, r renderRecord) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return root.WriteFile(renderMark, append(b, '\n'), 0o644)
}

// lastRendered is what the folder's mark says, or the refusal to use the folder.
func lastRendered(root *os.Root, dir string, force bool) (r renderRecord, err error) {
	b, err := root.ReadFile(renderMark)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &r); err != nil || r.FormatVersion != "1" {
			return r, fmt.Errorf("%s cannot be read as nodejoin's list of rendered files; remove it, then use --force", filepath.Join(dir, renderMark))
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
		return r, fmt.Errorf("%s is not empty and was not made by render; name another folder, or use --force to write into it", dir)
	}
	return r, nil
}
