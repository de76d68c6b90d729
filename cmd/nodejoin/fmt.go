package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
)

// formatter is one run of fmt.
type formatter struct {
	*app
	check, diff, recursive, list bool

	changed, broken int
}

func newFmt(a *app) *cobra.Command {
	f := &formatter{app: a}
	c := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "Format plan files",
		Long: `Rewrites *.join.hcl and *.joinvars files (of this folder, or of the given folders and
files) with canonical indentation and spacing, and prints the names of those it changed.
With "-" it formats standard input to standard output.

The exit code is 0 if all is done, 2 with --check if a file is not formatted, and 3 if a
file is not valid HCL; that file is not changed, the others are formatted.`,
		Example: `  nodejoin fmt -r plans            format all plans below
  nodejoin fmt --check --diff      show what would change here (for CI)`,
	}
	c.Flags().BoolVar(&f.check, "check", false, "change nothing; exit with 2 if a file is not formatted")
	c.Flags().BoolVar(&f.diff, "diff", false, "print the differences")
	c.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "go into subfolders, except hidden ones")
	c.Flags().BoolVar(&f.list, "list", true, "print the names of files that are not formatted")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := f.run(args); err != nil {
			return err
		}
		switch {
		case f.broken > 0:
			return exitError(exitInvalid)
		case f.check && f.changed > 0:
			return exitError(exitPending)
		}
		return nil
	}
	return c
}

func (f *formatter) run(args []string) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	if slices.Contains(args, "-") {
		if len(args) > 1 {
			return errors.New("standard input (-) cannot be combined with other paths")
		}
		return f.stdin()
	}
	for _, arg := range args {
		names, err := f.files(arg)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := f.file(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// files lists the files to format below path, sorted.
func (f *formatter) files(path string) ([]string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		if !plan.Formats(path) {
			return nil, fmt.Errorf("%s: only files that end in %s or %s are formatted", path, plan.Suffix, plan.VarSuffix)
		}
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if p != path && (!f.recursive || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && plan.Formats(p) && !strings.HasPrefix(d.Name(), "."):
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

func (f *formatter) stdin() error {
	src, err := io.ReadAll(f.term.In)
	if err != nil {
		return err
	}
	out, ok := f.format("<stdin>", src)
	if !ok {
		return nil
	}
	if !bytes.Equal(src, out) {
		f.changed++
	}
	switch {
	case f.diff:
		f.showDiff("<stdin>", src, out)
	case !f.check:
		_, err = f.term.Out.Write(out)
	}
	return err
}

func (f *formatter) file(name string) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	out, ok := f.format(name, src)
	if !ok || bytes.Equal(src, out) {
		return nil
	}
	f.changed++
	if f.list {
		fmt.Fprintln(f.term.Out, ui.CleanLine(name))
	}
	if f.diff {
		f.showDiff(name, src, out)
	}
	if f.check {
		return nil
	}
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	return replaceFile(name, out, fi.Mode().Perm())
}

func (f *formatter) format(name string, src []byte) ([]byte, bool) {
	out, diags := plan.Format(name, src)
	if diags.HasErrors() {
		f.broken++
		f.problems(ui.FromHCL(diags), map[string]*hcl.File{name: {Bytes: src}})
		return nil, false
	}
	return out, true
}

func (f *formatter) showDiff(name string, have, want []byte) {
	for _, line := range strings.SplitAfter(udiff.Unified(name, name, string(have), string(want)), "\n") {
		style := ui.Style("")
		switch {
		case strings.HasPrefix(line, "+"):
			style = ui.Green
		case strings.HasPrefix(line, "-"):
			style = ui.Red
		}
		text, nl := strings.CutSuffix(line, "\n")
		fmt.Fprint(f.term.Out, ui.Paint(f.term.OutColor, style, ui.Clean(text)))
		if nl {
			fmt.Fprintln(f.term.Out)
		}
	}
}

// replaceFile writes a file in one step: after a failure it has its old content. If name
// is a link, the file behind it is written.
func replaceFile(name string, data []byte, mode fs.FileMode) (err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".nodejoin-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := tmp.Chmod(mode); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
