package plan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Suffix ends the names of plan files.
const Suffix = ".join.hcl"

// maxFile bounds one plan file (bytes): more is a mistake, not a plan.
const maxFile = 8 << 20

func (p *Plan) load(path string, d *diags) {
	files, err := planFiles(path)
	if err != nil {
		p.broken = true
		d.fail(hcl.Range{}, "no plan", "%s", err)
		return
	}
	dir := path
	if len(files) == 1 && files[0] == path {
		dir, p.alone = filepath.Dir(path), true
	}
	p.dir, err = filepath.Abs(dir)
	if p.base = p.dir; err == nil && p.opt.Dir != "" {
		p.base, err = filepath.Abs(p.opt.Dir)
	}
	if err != nil {
		p.broken = true
		d.fail(hcl.Range{}, "no plan", "%s", err)
		return
	}
	var bodies []hcl.Body
	for _, name := range files {
		src, err := readBounded(name)
		if err != nil {
			p.broken = true
			d.fail(hcl.Range{}, "unreadable plan file", "%s", err)
			continue
		}
		if g := notText(src, name); g != nil {
			p.broken = true
			d.add(hcl.Diagnostics{g})
			continue
		}
		f, list := parseFile(src, name)
		if f != nil {
			p.parser.AddFile(name, f)
			bodies = append(bodies, f.Body)
		}
		d.add(list)
		if list.HasErrors() {
			p.broken = true
			continue
		}
		p.early.add(duplicateKeys(f.Body, p.place))
	}
	// Before anything else is judged: the plan may be for a nodejoin that knows more.
	if !p.requiredVersion(bodies, d) {
		p.broken = true
		return
	}
	if p.broken {
		return
	}
	schema := rootSpec.schema()
	for _, body := range bodies {
		content, list := body.Content(schema)
		p.early.add(clarifyBody(list, rootSpec))
		for _, b := range slices.Concat(content.Blocks, meant(body, rootSpec)) {
			p.blocks[b.Type] = append(p.blocks[b.Type], b)
		}
		for _, s := range rootSpec.blocks {
			p.lost[s.name] = p.lost[s.name] || lost(body, rootSpec, s.name)
		}
	}
	if p.twoPlans(d) {
		p.broken = true
		return
	}
	p.duplicates(p.early)
}

// twoPlans reports a folder in which two files are a whole plan each, with a cluster
// and its nodes: else each of their blocks would be told to be there twice.
func (p *Plan) twoPlans(d *diags) bool {
	nodes := map[string]bool{}
	for _, b := range p.blocks["node"] {
		nodes[b.DefRange.Filename] = true
	}
	var first *hcl.Block
	for _, b := range p.blocks["cluster"] {
		switch {
		case !nodes[b.DefRange.Filename]:
		case first == nil:
			first = b
		case first.DefRange.Filename != b.DefRange.Filename:
			d.fail(b.DefRange, "two plans in one folder", "This file has a cluster with nodes, and so has %s. All files of a folder are one plan, which has one cluster. Name one of the files instead of the folder, or give each plan a folder of its own.", p.place(first.DefRange))
			return true
		}
	}
	return false
}

// planFiles names the files of a plan: path itself, or the plan files in it, sorted.
func planFiles(path string) ([]string, error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist; name a folder with *%s files, or one such file", path, Suffix)
	case err != nil:
		return nil, err
	case !fi.IsDir():
		if !strings.HasSuffix(path, Suffix) {
			return nil, fmt.Errorf("%s does not end in %s; rename it, so that it is found together with its folder", path, Suffix)
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
		return nil, fmt.Errorf("%s holds no file that ends in %s; name the folder of a plan, or write a first one with 'nodejoin init'", path, Suffix)
	}
	slices.Sort(out)
	return out, nil
}

// readBounded reads a regular file of at most maxFile bytes. Devices and pipes,
// which may never end, are refused.
func readBounded(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	return readLimited(name)
}

// readLimited reads at most maxFile bytes of whatever name is.
func readLimited(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes, which is the most for a file of a plan", name, maxFile)
	}
	return b, err
}

// notText says where src is no UTF-8 text; nil when it is one.
func notText(src []byte, name string) *hcl.Diagnostic {
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
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "not a text file", Subject: &hcl.Range{Filename: name, Start: at, End: end},
		Detail: "The file is not UTF-8 text from here on. Save it as UTF-8; Windows PowerShell's > and Out-File write UTF-16 unless told otherwise."}
}

// requiredVersion tells whether this nodejoin may judge the plan.
func (p *Plan) requiredVersion(bodies []hcl.Body, d *diags) bool {
	ok := true
	for _, body := range bodies {
		content, _, _ := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "nodejoin"}}})
		for _, b := range content.Blocks {
			inner, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "required_version"}}})
			a := inner.Attributes["required_version"]
			if a == nil {
				continue
			}
			var text string
			if v, list := a.Expr.Value(nil); !list.HasErrors() && v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
				text = v.AsString()
			} else {
				p.early.fail(a.Expr.Range(), "invalid version constraint", "The argument \"required_version\" wants a text as it is, since it is read before anything else. Write for example \">= 0.1.0\".")
				continue
			}
			want, err := semver.NewConstraint(text)
			if err != nil {
				p.early.fail(a.Expr.Range(), "invalid version constraint", "%q is no version constraint. Write for example \">= 0.1.0\" or \">= 0.1.0, < 2.0.0\".", text)
				continue
			}
			have, err := semver.NewVersion(p.opt.Version)
			if err != nil {
				d.warn(a.Expr.Range(), "version not checked", "This nodejoin does not know its own version (%q), so required_version was not checked.", p.opt.Version)
				continue
			}
			// A pre-release of a version is taken for that version.
			core, _ := have.SetPrerelease("")
			if !want.Check(&core) {
				ok = false
				d.fail(a.Expr.Range(), "another version of nodejoin is needed", "The plan asks for nodejoin %s; this is %s. Nothing else of it was judged. Install a version that fits, or change required_version.", text, p.opt.Version)
			}
		}
	}
	return ok
}

// duplicates finds blocks that may be there once and names that are given twice.
// Only the first of each counts from here on.
func (p *Plan) duplicates(d *diags) {
	for _, spec := range rootSpec.blocks {
		if !spec.one && len(spec.labels) == 0 || spec.name == "artifact" { // artifacts are told apart by their arguments, too
			continue
		}
		first := map[string]*hcl.Block{}
		var kept []*hcl.Block
		for _, b := range p.blocks[spec.name] {
			key := "" // one block of the type
			if !spec.one {
				key = b.Labels[len(b.Labels)-1] // names of steps are unique over all kinds
			}
			before, again := first[key]
			switch {
			case !again:
				first[key] = b
				kept = append(kept, b)
			case spec.one:
				d.fail(b.DefRange, "duplicate block", "A plan has one %s block; the first is at %s. Remove one of them.", spec.name, p.place(before.DefRange))
			default:
				d.fail(b.DefRange, "duplicate name", "There is another %s %q at %s. Names must be unique, so that they can be referred to; rename one of them.", spec.name, key, p.place(before.DefRange))
			}
		}
		p.blocks[spec.name] = kept
	}
}
