package eval

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"nodejoin/plan/source"
)

// EnvPrefix begins the names of environment variables that set variables.
const EnvPrefix = "NODEJOIN_VAR_"

// AutoSuffix ends the names of variable files that are read automatically.
const AutoSuffix = ".auto.joinvars"

// Inputs are the values of variables from outside the plan.
type Inputs struct {
	Vars  map[string]string // as given with --var
	Files []string          // as given with --var-file
	// Environment is the one of --env; "" = none.
	Environment string
	// Alone: the plan is one file of its folder, so that the *.auto.joinvars beside it may
	// have values for variables of others.
	Alone bool
	// Unvalued: a variable without a value is unknown, and no error.
	Unvalued bool
}

// given is a value from outside: text (an expression, or the value of a string) or
// an expression of a file.
type given struct {
	text string
	expr hcl.Expression
	// value is of an input of a module, which stands at.
	value cty.Value
	at    hcl.Range
	from  string // "--var", "NODEJOIN_VAR_x" or the file
}

// givenValues are the values of the variables that a plan declares.
type givenValues struct {
	in     Inputs
	module *ModuleInputs // nil = they are the plan's
	names  []string      // in the order of the plan
	values map[string]given
	// lost: a file of values could not be read, so a variable without a value is not reported.
	lost bool
}

// Variables evaluates the variable blocks, and makes them known as var.NAME. A wrong or unknown
// variable has an unknown value, so that its uses are not reported too.
func (sc *Scope) Variables(spec *Spec, blocks []*hcl.Block, in Inputs, refs []source.Reference) {
	g := &givenValues{in: in, values: map[string]given{}}
	for _, b := range blocks {
		g.names = append(g.names, b.Labels[0])
	}
	g.collect(sc)
	sc.variables(spec, blocks, g, refs)
}

// variables gives each variable its value, and reports the unknown ones that refs name.
func (sc *Scope) variables(spec *Spec, blocks []*hcl.Block, g *givenValues, refs []source.Reference) {
	vars := map[string]cty.Value{}
	for _, b := range blocks {
		vars[b.Labels[0]] = sc.variable(spec, b, g)
	}
	for _, r := range refs {
		if r.Root != "var" {
			continue
		}
		if _, ok := vars[r.Name]; !ok {
			what := UnknownName("variable", r.Name, g.names)
			if DidYouMean(r.Name, g.names) == "" {
				what += " Declare it: variable " + strconv.Quote(r.Name) + " { type = string }."
			}
			sc.Fail(r.At, "unknown variable", "%s", what)
			vars[r.Name] = cty.DynamicVal
		}
	}
	sc.Ctx.Variables["var"] = cty.ObjectVal(vars)
}

// collect reads the given values; the later wins: NODEJOIN_VAR_name, automatic files, that of --env, named files,
// --var.
func (g *givenValues) collect(sc *Scope) {
	for _, n := range g.names {
		if sc.env == nil || sc.Files.Confined {
			break
		}
		if text, ok := sc.env(EnvPrefix + n); ok {
			g.values[n] = given{text: text, from: EnvPrefix + n}
		}
	}
	for _, file := range sc.autoFiles() {
		src, err := sc.Files.Read(file)
		g.file(sc, file, src, err, !g.in.Alone)
	}
	if g.in.Environment != "" {
		if file := sc.environmentFile(g.in.Environment); file != "" {
			src, err := sc.Files.Read(file)
			g.file(sc, file, src, err, !g.in.Alone)
		} else {
			g.lost = true
		}
	}
	for _, file := range g.in.Files {
		src, err := source.ReadStream(file) // it may be a pipe, as of a program that decrypts
		g.file(sc, file, src, err, true)
	}
	for _, n := range slices.Sorted(maps.Keys(g.in.Vars)) {
		if !slices.Contains(g.names, n) {
			sc.Fail(hcl.Range{}, "unknown variable", "--var %s: %s", n, UnknownName("variable", n, g.names))
			continue
		}
		g.values[n] = given{text: g.in.Vars[n], from: "--var"}
	}
}

// autoFiles are the variable files beside the plan, in the order of their names.
func (sc *Scope) autoFiles() []string {
	dir := sc.Files.Dir
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // that of a plan that is not written yet
		sc.Fail(hcl.Range{}, "unreadable variable file", "The plan's folder cannot be searched for *%s files: %s.",
			AutoSuffix, err)
		return nil
	}
	var out []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		if !e.IsDir() && strings.HasSuffix(name, AutoSuffix) && !strings.HasPrefix(name, ".") {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out
}

// file takes the values of a file whose text is src. strict reports names of variables
// that the plan does not declare.
func (g *givenValues) file(sc *Scope, file string, src []byte, err error, strict bool) {
	if err != nil {
		what := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			what = file + " does not exist."
		}
		sc.Fail(hcl.Range{}, "unreadable variable file", "%s", what)
		g.lost = true
		return
	}
	f, list := parseValues(src, file, sc.Files.Place)
	if f != nil {
		sc.Files.Parser.AddFile(filepath.Clean(file), f) // for diagnostics that point into it
	}
	sc.Extend(list)
	if list.HasErrors() {
		g.lost = true
		return
	}
	attrs, list := f.Body.JustAttributes()
	sc.Extend(list)
	for _, n := range slices.Sorted(maps.Keys(attrs)) {
		switch {
		case slices.Contains(g.names, n):
			g.values[n] = given{expr: attrs[n].Expr, from: file}
		case strict:
			sc.Fail(attrs[n].NameRange, "unknown variable", "%s", UnknownName("variable", n, g.names))
		}
	}
}

// parseValues parses a file of values, in HCL or JSON by its name.
func parseValues(src []byte, file string, place func(hcl.Range) string) (*hcl.File, hcl.Diagnostics) {
	name := filepath.Clean(file)
	if strings.HasSuffix(file, ".json") {
		return source.ParseJSON(src, name)
	}
	if g := source.NotText(src, name); g != nil {
		return nil, hcl.Diagnostics{g}
	}
	f, list := source.ParseFile(src, name)
	if f != nil && !list.HasErrors() {
		list = append(list, source.DuplicateKeys(f.Body, place)...)
	}
	return f, list
}

// declaration is a variable block.
type declaration struct {
	*Section
	name     string
	secret   bool
	given    hcl.Range // the input of a module that is its value; zero = it is none
	typ      cty.Type
	defaults *typeexpr.Defaults // of the type's optional attributes
}

// declare reads a variable block; false if its type is wrong.
func (sc *Scope) declare(spec *Spec, b *hcl.Block) (*declaration, bool) {
	d := &declaration{name: b.Labels[0], typ: cty.DynamicPseudoType}
	d.Section = sc.Section(spec, b, &hcl.EvalContext{Functions: sc.Ctx.Functions})
	if !hclsyntax.ValidIdentifier(d.name) {
		sc.Fail(b.LabelRanges[0], "invalid name", "%q is not a name: a variable is referred to as var.NAME, so it has "+
			"letters, digits, '_' and '-' and begins with a letter.", d.name)
	}
	if a := d.Attrs["sensitive"]; a != nil {
		v, _, o := sc.Evaluate(a.Expr, nil, "sensitive", cty.Bool, Allow{})
		d.secret = o == IsWrong || o == IsValue && v.True() // in doubt it is
	}
	if a := d.Attrs["description"]; a != nil {
		sc.Evaluate(a.Expr, nil, "description", cty.String, Allow{})
	}
	if a := d.Attrs["type"]; a != nil {
		t, defaults, list := typeexpr.TypeConstraintWithDefaults(a.Expr)
		sc.Extend(list)
		if list.HasErrors() {
			return d, false
		}
		d.typ, d.defaults = t, defaults
	}
	return d, true
}

// variable is the value of a variable, by what was given or its default.
func (sc *Scope) variable(spec *Spec, b *hcl.Block, values *givenValues) cty.Value {
	d, ok := sc.declare(spec, b)
	if !ok {
		return cty.DynamicVal
	}
	g, ok := values.values[d.name]
	switch {
	case ok && g.value != cty.NilVal:
		d.given = g.at
		return d.finish(g.value, g.from, g.at)
	case ok && g.expr != nil:
		v, list := g.expr.Value(nil)
		sc.Extend(list)
		if list.HasErrors() {
			return cty.DynamicVal
		}
		return d.finish(v, g.from, g.expr.Range())
	case ok && (d.typ == cty.String || d.typ == cty.DynamicPseudoType):
		return d.finish(cty.StringVal(g.text), g.from, b.DefRange)
	case ok:
		return d.parse(g)
	}
	if a := d.Attrs["default"]; a != nil {
		v, list := a.Expr.Value(&hcl.EvalContext{Functions: sc.Ctx.Functions})
		if list.HasErrors() {
			sc.Extend(sc.clarify(list))
			return cty.DynamicVal
		}
		return d.finish(v, "default", a.Expr.Range())
	}
	switch {
	case values.module != nil:
		sc.Fail(values.module.At, "missing input", "The module %s needs a value for its variable %q, which is at %s and "+
			"has no default. Give it in inputs: { %s = ... }.", values.module.Module, d.name, sc.Files.Place(b.DefRange),
			d.name)
		return cty.DynamicVal
	case values.in.Unvalued:
		sc.Unvalued = append(sc.Unvalued, d.name)
		return cty.UnknownVal(d.typ)
	case !values.lost:
		choose := ""
		if names := Environments(sc.Files.Dir); len(names) > 0 && values.in.Environment == "" {
			choose = " The plan has environments; choose one with --env: " + strings.Join(names, ", ") + "."
		}
		sc.Fail(b.DefRange, "variable without a value", "var.%s has no default and was not given. Give it with --var "+
			"%s=..., in a --var-file or *.auto.joinvars file, or as %s%s.%s", d.name, d.name, EnvPrefix, d.name, choose)
	}
	return cty.DynamicVal
}

// parse reads a value that was given as text, as an expression.
func (d *declaration) parse(g given) cty.Value {
	expr, list := source.ParseExpression([]byte(g.text), g.from, d.Scope.Files.Place)
	var v cty.Value
	if !list.HasErrors() {
		v, list = expr.Value(nil)
	}
	if list.HasErrors() {
		d.Scope.Fail(d.Block.DefRange, "wrong type", "The value of var.%s (%s) must be %s, written as in a plan%s.", d.name,
			g.from, friendly(d.typ), written(d.typ))
		return cty.DynamicVal
	}
	return d.finish(v, g.from, d.Block.DefRange)
}

// finish makes a value one of the variable's type, and checks its conditions.
func (d *declaration) finish(have cty.Value, from string, at hcl.Range) cty.Value {
	v := have
	if d.defaults != nil && !v.IsNull() {
		v = d.defaults.Apply(v)
	}
	v, err := convert.Convert(v, d.typ)
	if err != nil {
		d.Scope.Fail(at, "wrong type", "The value of var.%s (%s) must be %s%s.", d.name, from, friendly(d.typ),
			mismatch(have, d.typ, err))
		return cty.DynamicVal
	}
	if holdsRef(v) {
		d.Scope.Fail(at, "invalid character", "The value of var.%s (%s) holds a NUL character.", d.name, from)
		return cty.DynamicVal
	}
	if !v.IsWhollyKnown() {
		return cty.DynamicVal
	}
	if d.secret {
		v = v.Mark(sensitive)
	}
	return d.validate(v)
}

// written shows how a value of a type is written, "" where one example is not enough.
func written(t cty.Type) string {
	switch {
	case t == cty.Number:
		return ": 3"
	case t == cty.Bool:
		return ": true"
	case t.IsListType() && t.ElementType() == cty.String, t.IsSetType() && t.ElementType() == cty.String:
		return ": [\"a\", \"b\"]"
	case t.IsMapType() && t.ElementType() == cty.String:
		return ": { a = \"b\" }"
	}
	return ""
}

// validate checks the value against the block's conditions.
func (d *declaration) validate(v cty.Value) cty.Value {
	sc := d.Scope
	ctx := &hcl.EvalContext{Functions: sc.Ctx.Functions,
		Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{d.name: v})}}
	for _, b := range d.Blocks.OfType("validation") {
		s := sc.Section(d.Spec.Child("validation"), b, ctx)
		cond := s.Attrs["condition"]
		if cond == nil || d.strayReferences(cond.Expr) {
			continue
		}
		ok, _, o := sc.Evaluate(cond.Expr, ctx, "condition", cty.Bool, Allow{Sensitive: true})
		if o == IsNull {
			sc.Fail(cond.Expr.Range(), "missing value", "The argument \"condition\" is null here. It must be true or false.")
		}
		if o == IsValue && ok.False() {
			text := cmp.Or(strings.TrimSpace(s.Str("error_message")), "The condition does not hold.")
			sc.Fail(cmp.Or(d.given, d.Block.DefRange), "invalid value of a variable", "var.%s: %s (The condition is at %s.)",
				d.name, text, sc.Files.Place(cond.Expr.Range()))
			return cty.DynamicVal
		}
	}
	return v
}

// strayReferences reports names in a variable's condition other than the variable.
func (d *declaration) strayReferences(e hcl.Expression) bool {
	stray := false
	for _, t := range e.Variables() {
		if len(t) > 1 && t.RootName() == "var" {
			if a, ok := t[1].(hcl.TraverseAttr); ok && a.Name == d.name {
				continue
			}
		}
		stray = true
		d.Scope.Fail(t.SourceRange(), "unknown value",
			"A condition can name only its own variable, var.%s: variables do not depend on each other.", d.name)
	}
	return stray
}
