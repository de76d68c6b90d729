// Package format rewrites plan files in canonical form, or shows what that would change.
package format

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

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/source"
)

// Formatter formats files, or standard input.
type Formatter struct {
	Check     bool // change nothing
	Diff      bool // print the differences
	Recursive bool // go into subfolders, except hidden ones
	List      bool // print the names of files that are not formatted
	Term      *ui.Term
	// Problems prints what is wrong with a file that is not valid HCL.
	Problems func(list hcl.Diagnostics, files map[string]*hcl.File)

	Changed, Broken int // files that are not formatted, and those that are not valid
}

// Run formats files and folders, by default this folder. "-" is standard input.
func (f *Formatter) Run(args []string) error {
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
		names, err := f.below(arg)
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

// below lists the files to format below path, sorted.
func (f *Formatter) below(path string) ([]string, error) {
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
			if p != path && (!f.Recursive || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && plan.Formats(p) && !strings.HasPrefix(d.Name(), "."):
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

func (f *Formatter) stdin() error {
	src, err := io.ReadAll(io.LimitReader(f.Term.In, source.MaxFile+1))
	switch {
	case err != nil:
		return err
	case len(src) > source.MaxFile:
		return fmt.Errorf("standard input has more than %d bytes, which is the most for a file of a plan",
			source.MaxFile)
	}
	out, ok := f.format("<stdin>", src)
	if !ok {
		return nil
	}
	if !bytes.Equal(src, out) {
		f.Changed++
	}
	switch {
	case f.Diff:
		f.showDiff("<stdin>", src, out)
	case !f.Check:
		_, err = f.Term.Out.Write(out)
	}
	return err
}

func (f *Formatter) file(name string) error {
	src, err := source.ReadFile(name)
	if err != nil {
		return err
	}
	out, ok := f.format(name, src)
	if !ok || bytes.Equal(src, out) {
		return nil
	}
	f.Changed++
	if f.List {
		fmt.Fprintln(f.Term.Out, ui.CleanLine(name))
	}
	if f.Diff {
		f.showDiff(name, src, out)
	}
	if f.Check {
		return nil
	}
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	return atomicfile.Write(name, out, fi.Mode().Perm())
}

func (f *Formatter) format(name string, src []byte) ([]byte, bool) {
	out, diags := plan.Format(name, src)
	if diags.HasErrors() {
		f.Broken++
		f.Problems(diags, map[string]*hcl.File{name: {Bytes: src}})
		return nil, false
	}
	return out, true
}

func (f *Formatter) showDiff(name string, have, want []byte) {
	for _, line := range strings.SplitAfter(udiff.Unified(name, name, string(have), string(want)), "\n") {
		style := ui.Style("")
		switch {
		case strings.HasPrefix(line, "+"):
			style = ui.Green
		case strings.HasPrefix(line, "-"):
			style = ui.Red
		}
		text, nl := strings.CutSuffix(line, "\n")
		fmt.Fprint(f.Term.Out, ui.Paint(f.Term.OutColor, style, ui.Clean(text)))
		if nl {
			fmt.Fprintln(f.Term.Out)
		}
	}
}
