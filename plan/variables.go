package plan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"nodejoin/plan/graph"
)

// EnvPrefix begins the names of environment variables that give variables.
const EnvPrefix = "NODEJOIN_VAR_"

// given is a value from outside: text (an expression, or the value of a string) or
// an expression of a file.
type given struct {
	text string
	expr hcl.Expression
	from string // "--var", "NODEJOIN_VAR_x" or the file
}

// variables evaluates the variable blocks. A variable that is wrong or unknown
// stands for any value, so that nothing that uses it is reported too.
func (c *compiler) variables(refs []reference) {
	vars := map[string]cty.Value{}
	var names []string
	for _, b := range c.plan.blocks["variable"] {
		names = append(names, b.Labels[0])
	}
	values := c.givenValues(names)
	for _, b := range c.plan.blocks["variable"] {
		vars[b.Labels[0]] = c.variable(b, values)
	}
	for _, r := range refs {
		if r.root != "var" {
			continue
		}
		c.used["var."+r.name] = true
		if _, ok := vars[r.name]; !ok {
			what := unknownName("variable", r.name, names)
			if didYouMean(r.name, names) == "" {
				what += " Declare it: variable " + quote(r.name) + " { type = string }."
			}
			c.diags.fail(r.at, "unknown variable", "%s", what)
			vars[r.name] = cty.DynamicVal
		}
	}
	c.ctx.Variables["var"] = cty.ObjectVal(vars)
}

// AutoSuffix ends the names of variable files that are read without being named.
const AutoSuffix = ".auto.joinvars"

// autoFiles are the variable files beside the plan, in the order of their names.
func (c *compiler) autoFiles() []string {
	entries, err := os.ReadDir(c.plan.dir)
	if err != nil {
		c.diags.fail(hcl.Range{}, "unreadable variable file", "The plan's folder cannot be searched for *%s files: %s.", AutoSuffix, err)
		return nil
	}
	var out []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		if !e.IsDir() && strings.HasSuffix(name, AutoSuffix) && !strings.HasPrefix(name, ".") {
			out = append(out, filepath.Join(c.plan.dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out
}

// givenValues collects what was given, the later winning: environment, files that
// are read by themselves, files that are named, --var.
func (c *compiler) givenValues(names []string) map[string]given {
	out := map[string]given{}
	for _, n := range names {
		if c.opt.Env != nil {
			if text, ok := c.opt.Env(EnvPrefix + n); ok {
				out[n] = given{text: text, from: EnvPrefix + n}
			}
		}
	}
	known := map[string]bool{}
	for _, n := range names {
		known[n] = true
	}
	auto := c.autoFiles()
	for i, file := range append(slices.Clone(auto), c.opt.VarFiles...) {
		read := readLimited // it may be a pipe, as of a program that decrypts
		if i < len(auto) {
			read = readBounded
		}
		src, err := read(file)
		if err != nil {
			what := err.Error()
			if errors.Is(err, fs.ErrNotExist) {
				what = file + " does not exist."
			}
			c.diags.fail(hcl.Range{}, "unreadable variable file", "%s", what)
			c.valuesLost = true
			continue
		}
		name := filepath.Clean(file)
		var f *hcl.File
		var list hcl.Diagnostics
		switch {
		case strings.HasSuffix(file, ".json"):
			f, list = parseJSON(src, name)
		case notText(src, name) != nil:
			list = hcl.Diagnostics{notText(src, name)}
		default:
			f, list = parseFile(src, name)
		}
		if f != nil {
			c.plan.parser.AddFile(name, f) // for diagnostics that point into it
		}
		if f != nil && !list.HasErrors() {
			list = append(list, duplicateKeys(f.Body, c.plan.place)...)
		}
		c.diags.add(list)
		if list.HasErrors() {
			c.valuesLost = true
			continue
		}
		attrs, list := f.Body.JustAttributes()
		c.diags.add(list)
		for _, n := range sortedKeys(attrs) {
			if !known[n] {
				// A file that is read by itself is for all files of the folder.
				if i >= len(auto) || !c.plan.alone {
					c.diags.fail(attrs[n].NameRange, "unknown variable", "%s", unknownName("variable", n, names))
				}
				continue
			}
			out[n] = given{expr: attrs[n].Expr, from: file}
		}
	}
	for _, n := range sortedKeys(c.opt.Vars) {
		if !known[n] {
			c.diags.fail(hcl.Range{}, "unknown variable", "--var %s: %s", n, unknownName("variable", n, names))
			continue
		}
		out[n] = given{text: c.opt.Vars[n], from: "--var"}
	}
	return out
}

func (c *compiler) variable(b *hcl.Block, values map[string]given) cty.Value {
	name := b.Labels[0]
	s := c.section(rootBlock("variable"), b, &hcl.EvalContext{Functions: c.ctx.Functions})
	if !hclsyntax.ValidIdentifier(name) {
		c.diags.fail(b.LabelRanges[0], "invalid name", "%q is no name: a variable is referred to as var.NAME, so it has letters, digits, '_' and '-' and begins with a letter.", name)
	}
	var secret bool
	if a := s.attrs["sensitive"]; a != nil {
		v, _, o := c.evaluate(a.Expr, nil, "sensitive", cty.Bool, allow{})
		secret = o == isWrong || o == isValue && v.True() // in doubt it is
	}
	if a := s.attrs["description"]; a != nil {
		c.evaluate(a.Expr, nil, "description", cty.String, allow{})
	}
	typ, defaults := cty.DynamicPseudoType, (*typeexpr.Defaults)(nil)
	if a := s.attrs["type"]; a != nil {
		t, d, list := typeexpr.TypeConstraintWithDefaults(a.Expr)
		c.diags.add(list)
		if list.HasErrors() {
			return cty.DynamicVal
		}
		typ, defaults = t, d
	}
	finish := func(v0 cty.Value, from string, at hcl.Range) cty.Value {
		v := v0
		if defaults != nil && !v.IsNull() {
			v = defaults.Apply(v)
		}
		v, err := convert.Convert(v, typ)
		if err != nil {
			c.diags.fail(at, "wrong type", "The value of var.%s (%s) must be %s%s.", name, from, friendly(typ), mismatch(v0, typ, err))
			return cty.DynamicVal
		}
		if holdsRef(v) {
			c.diags.fail(at, "invalid character", "The value of var.%s (%s) holds a NUL character.", name, from)
			return cty.DynamicVal
		}
		if !v.IsWhollyKnown() {
			return cty.DynamicVal
		}
		if secret {
			v = v.Mark(sensitive)
		}
		return c.validate(s, name, v, b.DefRange)
	}
	g, ok := values[name]
	switch {
	case ok && g.expr != nil:
		v, list := g.expr.Value(nil)
		c.diags.add(list)
		if list.HasErrors() {
			return cty.DynamicVal
		}
		return finish(v, g.from, g.expr.Range())
	case ok && (typ == cty.String || typ == cty.DynamicPseudoType):
		return finish(cty.StringVal(g.text), g.from, b.DefRange)
	case ok:
		expr, list := parseExpression([]byte(g.text), g.from, c.plan.place)
		var v cty.Value
		if !list.HasErrors() {
			v, list = expr.Value(nil)
		}
		if list.HasErrors() {
			c.diags.fail(b.DefRange, "wrong type", "The value of var.%s (%s) must be %s, written as in a plan%s.", name, g.from, friendly(typ), written(typ))
			return cty.DynamicVal
		}
		return finish(v, g.from, b.DefRange)
	}
	if a := s.attrs["default"]; a != nil {
		v, list := a.Expr.Value(&hcl.EvalContext{Functions: c.ctx.Functions})
		if list.HasErrors() {
			c.diags.add(c.clarify(list))
			return cty.DynamicVal
		}
		return finish(v, "default", a.Expr.Range())
	}
	if c.valuesLost {
		return cty.DynamicVal // it may be in the file that could not be read
	}
	c.diags.fail(b.DefRange, "variable without a value", "var.%s has no default and was not given. Give it with --var %s=..., in a --var-file or *.auto.joinvars file, or as %s%s.", name, name, EnvPrefix, name)
	return cty.DynamicVal
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

// validate holds the value against the block's conditions.
func (c *compiler) validate(s *section, name string, v cty.Value, at hcl.Range) cty.Value {
	ctx := &hcl.EvalContext{Functions: c.ctx.Functions, Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{name: v})}}
	for _, b := range s.blocks.OfType("validation") {
		vs := c.section(rootBlock("variable").child("validation"), b, ctx)
		cond := vs.attrs["condition"]
		if cond == nil || c.strayReferences(cond.Expr, name) {
			continue
		}
		ok, _, o := c.evaluate(cond.Expr, ctx, "condition", cty.Bool, allow{sensitive: true})
		if o == isNull {
			c.diags.fail(cond.Expr.Range(), "missing value", "The argument \"condition\" is null here. It must be true or false.")
		}
		if o == isValue && ok.False() {
			text := first(strings.TrimSpace(vs.str("error_message")), "The condition does not hold.")
			c.diags.fail(at, "invalid value of a variable", "var.%s: %s (The condition is at %s.)", name, text, c.plan.place(cond.Expr.Range()))
			return cty.DynamicVal
		}
	}
	return v
}

// strayReferences reports what a condition of a variable names besides the variable.
func (c *compiler) strayReferences(e hcl.Expression, name string) bool {
	stray := false
	for _, t := range e.Variables() {
		if len(t) > 1 && t.RootName() == "var" {
			if a, ok := t[1].(hcl.TraverseAttr); ok && a.Name == name {
				continue
			}
		}
		stray = true
		c.diags.fail(t.SourceRange(), "unknown value", "A condition can name only its own variable, var.%s: variables do not depend on each other.", name)
	}
	return stray
}

// locals evaluates the locals in the order in which they depend on each other.
func (c *compiler) locals(refs []reference) {
	attrs := map[string]*hcl.Attribute{}
	var names []string
	for _, b := range c.plan.blocks["locals"] {
		list, diags := b.Body.JustAttributes()
		c.diags.add(diags)
		for _, n := range sortedKeys(list) {
			if before := attrs[n]; before != nil {
				c.diags.fail(list[n].NameRange, "duplicate name", "local.%s is given at %s already. Names must be unique; rename one of them.", n, c.plan.place(before.NameRange))
				continue
			}
			attrs[n] = list[n]
			names = append(names, n)
		}
	}
	values := map[string]cty.Value{}
	for _, r := range refs {
		if r.root != "local" {
			continue
		}
		c.used["local."+r.name] = true
		if attrs[r.name] == nil && values[r.name] == cty.NilVal {
			c.diags.fail(r.at, "unknown local", "%s", unknownName("local", r.name, names))
			values[r.name] = cty.DynamicVal
		}
	}
	order := c.localsOrder(names, attrs, values)
	for _, n := range order {
		c.ctx.Variables["local"] = cty.ObjectVal(values)
		v, list := attrs[n].Expr.Value(c.ctx)
		if list.HasErrors() {
			c.diags.add(c.clarify(list))
			v = cty.DynamicVal
		}
		values[n] = v
	}
	c.ctx.Variables["local"] = cty.ObjectVal(values)
}

// localsOrder lists the locals so that each comes after those that it needs. Those
// in a circle are reported, stand for any value, and are not in the list.
func (c *compiler) localsOrder(names []string, attrs map[string]*hcl.Attribute, values map[string]cty.Value) []string {
	names = slices.Clone(names)
	for {
		var g graph.Graph[string]
		for _, n := range names {
			g.Add(n)
		}
		for _, n := range names {
			for _, t := range attrs[n].Expr.Variables() {
				if len(t) < 2 || t.RootName() != "local" {
					continue
				}
				if a, ok := t[1].(hcl.TraverseAttr); ok && g.Has(a.Name) {
					_ = g.Edge(a.Name, n) // both are nodes
				}
			}
		}
		order, err := g.Order()
		var cycle *graph.CycleError[string]
		if !errors.As(err, &cycle) {
			return order
		}
		path := "local." + strings.Join(cycle.Path, " -> local.")
		c.diags.fail(attrs[cycle.Path[0]].NameRange, "locals in a circle", "Each of these needs the one before it, so none has a value: %s.", path)
		for _, n := range cycle.Path {
			values[n] = cty.DynamicVal
		}
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(cycle.Path, n) })
	}
}
