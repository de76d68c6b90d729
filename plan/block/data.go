package block

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

// Data is what a data block has read.
type Data struct {
	Address   string // data.KIND.NAME
	From      string // the command line of the program, or the path, as the plan names it
	Sensitive bool
	SHA256    string // digest of the value, in hex; "" for one that is sensitive
	Source    string // where its block stands
}

// Bounds of the programs of data blocks.
const (
	programTimeout    = 30 * time.Second
	programTimeoutMax = 5 * time.Minute
)

// dataReader reads data blocks.
type dataReader struct {
	*eval.Scope
	unvalued bool
	read     []Data   // in the order in which it was read
	unread   []string // addresses of data that has no value; see Inputs.Unvalued
}

// values evaluates the locals and modules, and reads the data blocks.
func (r *dataReader) values(locals, blocks []*hcl.Block, modules []eval.Datum, refs []source.Reference) {
	list := modules
	for _, b := range blocks {
		spec := r.Kind(Root("data"), b)
		if spec == nil {
			continue
		}
		d := eval.Datum{Kind: b.Labels[0], Name: b.Labels[1], At: b.DefRange}
		if !hclsyntax.ValidIdentifier(d.Name) {
			r.Fail(b.LabelRanges[1], "invalid name", "%q is not a name: data is referred to as data.%s.NAME, so it has "+
				"letters, digits, '_' and '-' and begins with a letter.", d.Name, d.Kind)
		}
		attrs, _ := b.Body.JustAttributes()
		for _, n := range slices.Sorted(maps.Keys(attrs)) {
			d.Exprs = append(d.Exprs, attrs[n].Expr)
		}
		d.Read = func(ctx *hcl.EvalContext) cty.Value { return r.value(spec, b, ctx) }
		list = append(list, d)
	}
	r.Values(locals, slices.Sorted(maps.Keys(dataSpecs)), list, refs)
}

// value is the value of data.KIND.NAME: an object with the attribute value.
func (r *dataReader) value(spec *eval.Spec, b *hcl.Block, ctx *hcl.EvalContext) cty.Value {
	s := r.Section(spec, b, ctx)
	d := Data{Address: "data." + b.Labels[0] + "." + b.Labels[1], Sensitive: s.Bool("sensitive"),
		Source: r.Files.Place(b.DefRange)}
	read := r.file
	if b.Labels[0] == "exec" {
		read = r.program
	}
	v := read(s, &d)
	if v == cty.NilVal {
		return cty.DynamicVal
	}
	if !v.IsWhollyKnown() {
		r.unread = append(r.unread, d.Address)
		return cty.ObjectVal(map[string]cty.Value{"value": v})
	}
	if d.Sensitive {
		v = eval.Hide(v)
	} else {
		var err error
		if d.SHA256, err = eval.ValueDigest(v); err != nil {
			s.FailAt(b.DefRange, "data not read", "%s holds what JSON cannot: %s.", d.Address, err)
			return cty.DynamicVal
		}
	}
	r.read = append(r.read, d)
	return cty.ObjectVal(map[string]cty.Value{"value": v})
}

// program is what the program of a data "exec" block prints: unknown where it is not to be run, cty.NilVal if
// something is wrong or depends on what is not known.
func (r *dataReader) program(s *eval.Section, d *Data) cty.Value {
	run := eval.Program{Command: s.Strs("program"), Dir: r.Files.Abs("."), Most: eval.MaxData,
		Timeout: s.Duration("timeout", time.Second, programTimeoutMax, programTimeout)}
	if s.OK && (len(run.Command) == 0 || run.Command[0] == "") {
		s.Fail("program", "missing value", "The argument \"program\" has no program. Write for example [\"sops\", "+
			"\"--decrypt\", \"--output-type\", \"json\", \"secrets.yaml\"].")
	}
	env := s.StrMap("env")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "" || strings.Contains(name, "=") {
			s.FailAt(s.AtKey("env", name), "invalid name", "%q is not the name of a variable of the environment.", name)
		}
		run.Env = append(run.Env, name+"="+env[name])
	}
	switch {
	case !s.OK:
		return cty.NilVal
	case r.unvalued:
		return cty.DynamicVal
	case r.Files.Confined:
		s.Fail("program", "program refused", "With --untrusted no program of a plan is run, so %s has no value. 'nodejoin "+
			"validate --untrusted' judges the rest of the plan.", d.Address)
		return cty.NilVal
	case r.Program == nil:
		s.Fail("program", "program refused", "No program of a plan is run here, so %s has no value.", d.Address)
		return cty.NilVal
	}
	d.From = strings.Join(run.Command, " ")
	name := run.Command[0]
	if strings.Contains(filepath.ToSlash(name), "/") {
		run.Command[0] = r.Files.Abs(name)
		r.Files.Noted(run.Command[0])
	}
	out, err := r.Run(run)
	if err != nil {
		r.failed(s, d, name, err)
		return cty.NilVal
	}
	return r.parsed(s, "program", "The output of "+name, "json", string(out), d)
}

// failed reports a program that gave nothing.
func (r *dataReader) failed(s *eval.Section, d *Data, name string, err error) {
	var why *eval.ProgramError
	if !errors.As(err, &why) {
		why = &eval.ProgramError{What: "failed: " + err.Error()}
	}
	text := why.Remedy
	switch {
	case why.Stderr == "":
	case d.Sensitive:
		text += " What it wrote to standard error is not shown, because the data is sensitive; run it by hand to see it."
	default:
		text += " It wrote to standard error: " + why.Stderr
	}
	s.Fail("program", "data not read", "%s: %s %s.%s", d.Address, name, why.What, " "+strings.TrimSpace(text))
}

// file is what the file of a data "file" block holds, as program.
func (r *dataReader) file(s *eval.Section, d *Data) cty.Value {
	name := s.Str("path")
	format := s.StrOr("format", map[string]string{".json": "json", ".yaml": "yaml", ".yml": "yaml",
		".csv": "csv"}[strings.ToLower(filepath.Ext(name))])
	if !s.OK {
		return cty.NilVal
	}
	if !slices.Contains(eval.Formats, format) {
		at, what := "format", "The argument \"format\" takes "+eval.OneOf(eval.Formats)+"."
		if !s.Has("format") {
			at, what = "path", "The name of the file does not say its format. Give the argument \"format\": "+
				eval.OneOf(eval.Formats)+"."
		}
		s.Fail(at, "unknown format", "%s", what)
		return cty.NilVal
	}
	if _, err := r.Files.Stat(r.Files.Abs(name)); err != nil && r.unvalued {
		return cty.DynamicVal
	}
	d.From = name
	text, err := r.ReadText(name)
	if err != nil {
		s.Fail("path", "data not read", "%s: %s.", d.Address, err)
		return cty.NilVal
	}
	return r.parsed(s, "path", name, format, text, d)
}

// parsed is the value of a text; cty.NilVal if it has none, which is reported at an argument.
func (r *dataReader) parsed(s *eval.Section, at, what, format, text string, d *Data) cty.Value {
	v, err := eval.Parse(format, strings.TrimPrefix(text, "\ufeff"), d.Sensitive)
	if err != nil {
		s.Fail(at, "data not read", "%s: %s cannot be read as %s: %s.", d.Address, what, strings.ToUpper(format), err)
		return cty.NilVal
	}
	return v
}
