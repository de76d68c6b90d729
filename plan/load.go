package plan

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

func (p *Plan) load(path string, d *eval.Diags) {
	files, err := []string{path}, error(nil)
	if p.opt.Text == nil {
		files, err = source.Find(path)
	}
	if err != nil {
		p.broken = true
		d.Fail(hcl.Range{}, "no plan", "%s", err)
		return
	}
	dir := path
	if len(files) == 1 && files[0] == path {
		dir, p.alone = filepath.Dir(path), true
	}
	p.files, err = source.NewFiles(dir)
	if err != nil {
		p.broken = true
		d.Fail(hcl.Range{}, "no plan", "%s", err)
		return
	}
	p.files.Confined, p.files.Note = p.opt.Untrusted, p.opt.Note
	if b := p.opt.Bundle; b != nil {
		p.files.Root, p.files.Own = b.Root, b.Own
	}
	p.readLock(files, d)
	var bodies []hcl.Body
	for _, name := range files {
		src, err := p.opt.Text, error(nil)
		if src == nil {
			src, err = p.files.Read(name)
		}
		if err != nil {
			p.broken = true
			d.Fail(hcl.Range{}, "unreadable plan file", "%s", err)
			continue
		}
		if g := source.NotText(src, name); g != nil {
			p.broken = true
			d.Extend(hcl.Diagnostics{g})
			continue
		}
		f, list := source.ParseFile(src, name)
		if f != nil {
			p.files.Parser.AddFile(name, f)
			bodies = append(bodies, f.Body)
		}
		d.Extend(list)
		if list.HasErrors() {
			p.broken = true
			continue
		}
		p.early.Extend(source.DuplicateKeys(f.Body, p.files.Place))
	}
	// First of all: the plan may be for a newer nodejoin.
	if !p.requiredVersion(bodies, d) {
		p.broken = true
		return
	}
	if p.broken {
		return
	}
	schema := block.RootSpec.Schema()
	for _, body := range bodies {
		content, list := body.Content(schema)
		p.early.Extend(eval.ClarifyBody(list, block.RootSpec))
		for _, b := range slices.Concat(content.Blocks, eval.MisspeltBlocks(body, block.RootSpec)) {
			p.blocks[b.Type] = append(p.blocks[b.Type], b)
		}
		for _, s := range block.RootSpec.Blocks {
			p.lost[s.Name] = p.lost[s.Name] || eval.Lost(body, block.RootSpec, s.Name)
		}
	}
	if p.twoPlans(d) {
		p.broken = true
		return
	}
	p.duplicates(p.early)
}

// twoPlans reports a folder in which two files are a whole plan each, with a cluster and its
// nodes. Otherwise each of their blocks would be reported as a duplicate.
func (p *Plan) twoPlans(d *eval.Diags) bool {
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
			d.Fail(b.DefRange, "two plans in one folder", "This file has a cluster with nodes, and so has %s. All files of "+
				"a folder are one plan, which has one cluster. Name one of the files instead of the folder, or give each plan "+
				"a folder of its own.", p.files.Place(first.DefRange))
			return true
		}
	}
	return false
}

// requiredVersion reports whether the plan accepts this nodejoin.
func (p *Plan) requiredVersion(bodies []hcl.Body, d *eval.Diags) bool {
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
				p.early.Fail(a.Expr.Range(), "invalid version constraint", "The argument \"required_version\" takes a "+
					"literal string, because it is read before anything else. Write for example \">= 0.1.0\".")
				continue
			}
			want, err := semver.NewConstraint(text)
			if err != nil {
				p.early.Fail(a.Expr.Range(), "invalid version constraint",
					"%q is not a version constraint. Write for example \">= 0.1.0\" or \">= 0.1.0, < 2.0.0\".", text)
				continue
			}
			have, err := semver.NewVersion(p.opt.Version)
			if err != nil {
				d.Warn(a.Expr.Range(), "version not checked",
					"This nodejoin does not know its own version (%q), so required_version was not checked.", p.opt.Version)
				continue
			}
			// A pre-release counts as its version.
			core, _ := have.SetPrerelease("")
			if !want.Check(&core) {
				ok = false
				d.Fail(a.Expr.Range(), "another version of nodejoin is needed",
					"The plan asks for nodejoin %s; this is %s. Nothing else in it was checked. Install a version that fits, or "+
						"change required_version.", text, p.opt.Version)
			}
		}
	}
	return ok
}

// duplicates reports repeated blocks and names. Only the first of each is kept.
func (p *Plan) duplicates(d *eval.Diags) {
	for _, spec := range block.RootSpec.Blocks {
		// artifacts differ by their arguments too
		if !spec.One && len(spec.Labels) == 0 || spec.Name == "artifact" {
			continue
		}
		first := map[string]*hcl.Block{}
		var kept []*hcl.Block
		for _, b := range p.blocks[spec.Name] {
			key := "" // one block of the type
			if !spec.One {
				key = b.Labels[len(b.Labels)-1] // names of steps are unique over all kinds
			}
			if spec.Name == "data" {
				key = strings.Join(b.Labels, ".")
			}
			before, again := first[key]
			switch {
			case !again:
				first[key] = b
				kept = append(kept, b)
			case spec.One:
				d.Fail(b.DefRange, "duplicate block", "A plan has one %s block; the first is at %s. Remove one of them.",
					spec.Name, p.files.Place(before.DefRange))
			default:
				d.Fail(b.DefRange, "duplicate name",
					"There is another %s %q at %s. Names must be unique, so that they can be referred to; rename one of them.",
					spec.Name, key, p.files.Place(before.DefRange))
			}
		}
		p.blocks[spec.Name] = kept
	}
}

// Load reads a plan: one file, or every *.join.hcl of a directory. Its diagnostics are those
// that prevent compiling: text that is not HCL, a plan for another version of nodejoin. The
// Plan is never nil, so that its Files can show them. Everything else is found by Compile.
func Load(path string, opt Options) (*Plan, hcl.Diagnostics) {
	p := &Plan{opt: opt, path: path, files: &source.Files{Parser: hclparse.NewParser(), Relative: map[string]string{}},
		blocks: map[string][]*hcl.Block{}, early: eval.NewDiags(), lost: map[string]bool{}}
	d := eval.NewDiags()
	p.load(path, d)
	return p, d.Sorted()
}
