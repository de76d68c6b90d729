package block

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/source"
)

// maxModules bounds modules inside each other.
const maxModules = 10

// moduleBlocks are the blocks that a module may have.
var moduleBlocks = []string{"variable", "locals", "output", "check", "profile", "node", "step", "module"}

// data are the module blocks as values that are read once their inputs are known.
func (r *moduleReader) data(blocks []*hcl.Block) (list []eval.Datum) {
	for _, b := range blocks {
		d := eval.Datum{Kind: eval.ModuleKind, Name: b.Labels[0], At: b.DefRange}
		if !hclsyntax.ValidIdentifier(d.Name) {
			r.Fail(b.LabelRanges[0], "invalid name", "%q is not a name: a module is referred to as module.NAME, so it has "+
				"letters, digits, '_' and '-' and begins with a letter.", d.Name)
		}
		attrs, _ := b.Body.JustAttributes()
		for _, n := range slices.Sorted(maps.Keys(attrs)) {
			d.Exprs = append(d.Exprs, attrs[n].Expr)
		}
		d.Read = func(ctx *hcl.EvalContext) cty.Value { return r.module(b, ctx) }
		list = append(list, d)
	}
	return list
}

// module is the value of module.NAME: an object of the module's outputs, or with for_each an object of such by key.
func (r *moduleReader) module(b *hcl.Block, ctx *hcl.EvalContext) cty.Value {
	s := r.Section(Root("module"), b, ctx)
	m := &moduleCall{moduleReader: r, Section: s}
	if !m.open() {
		return cty.DynamicVal
	}
	each := s.Attrs["for_each"]
	if each == nil {
		return m.outputs(ctx)
	}
	elements, known := r.ForEach(each, ctx)
	if !known {
		return cty.DynamicVal
	}
	out := map[string]cty.Value{}
	for _, e := range elements {
		inner := ctx.NewChild()
		inner.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{
			"key": cty.StringVal(e.Key), "value": e.Value})}
		m.key = fmt.Sprintf("[%q]", e.Key)
		m.each, m.element = true, e.Key
		out[e.Key] = m.outputs(inner)
	}
	return cty.ObjectVal(out)
}

// open reads the files of the module; false if that is not possible, which is reported.
func (m *moduleCall) open() bool {
	sc := m.moduleReader.Scope
	at := m.Attrs["source"]
	if at == nil {
		return false
	}
	text, ok := m.literal("source", `"./modules/windows"`)
	if !ok {
		return false
	}
	files := sc.Files
	switch local := strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../"); {
	case local:
		m.dir = sc.Files.Abs(filepath.FromSlash(text))
		m.onlyRemote()
	case remoteModule(text):
		if files, ok = m.fetch(text); !ok {
			return false
		}
	default:
		sc.Fail(at.Expr.Range(), "invalid source", "%q is not the source of a module. Write the path of a folder that "+
			"begins with ./ or ../, for example \"./modules/windows\"; or the address of an archive, "+
			"https://HOST/PATH.tar.gz, or of an OCI artifact, oci://REGISTRY/REPOSITORY:TAG or @sha256:DIGEST.", text)
		return false
	}
	m.files = files.Module(m.dir)
	if slices.Contains(m.inside, m.dir) {
		sc.Fail(at.Expr.Range(), "modules in a circle", "The module %q is inside of itself: %s is a module that this file "+
			"belongs to.", m.Block.Labels[0], text)
		return false
	}
	if len(m.inside) >= maxModules {
		sc.Fail(at.Expr.Range(), "modules nested too deep", "More than %d modules are inside each other.", maxModules)
		return false
	}
	return m.read(at.Expr.Range(), text)
}

func (m *moduleCall) read(at hcl.Range, text string) bool {
	sc := m.moduleReader.Scope
	where, remote := "The path begins at the folder of this file.", remoteModule(text)
	if remote {
		text = cmp.Or(m.Values["path"].AsString(), "The top of the module's archive")
		where = "The path begins at the top of the module's archive."
	}
	fi, err := m.files.Stat(m.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		sc.Fail(at, "no module", "The folder %s does not exist. %s", text, where)
		return false
	case err != nil:
		sc.Fail(at, "no module", "%s.", err)
		return false
	case !fi.IsDir():
		sc.Fail(at, "no module", "%s is a file. A module is a folder with *%s files; name the folder.", text, source.Suffix)
		return false
	}
	files, err := m.files.ReadModule(m.dir)
	if errors.Is(err, source.ErrNoFiles) {
		hint := ""
		if remote {
			hint = m.folderHint()
		}
		sc.Fail(at, "no module", "%s has no file that ends in %s. A module is a folder with such files.%s", text,
			source.Suffix, hint)
		return false
	}
	if err != nil {
		sc.Fail(at, "no module", "%s.", err)
		return false
	}
	m.blocks = map[string][]*hcl.Block{}
	before := sc.Errors()
	for _, f := range files {
		sc.Extend(f.Wrong)
		if f.Wrong.HasErrors() {
			continue
		}
		content, list := f.Body.Content(RootSpec.Schema())
		sc.Extend(eval.ClarifyBody(list, RootSpec))
		for _, b := range content.Blocks {
			m.add(b)
		}
	}
	return sc.Errors() == before
}

// add keeps a block of the module, unless a module cannot have it or has it already.
func (m *moduleCall) add(b *hcl.Block) {
	sc := m.moduleReader.Scope
	if !slices.Contains(moduleBlocks, b.Type) {
		sc.Fail(b.DefRange, "block not in a module", "A module has no %s block; it has %s. Put this one into a file of the "+
			"plan, and let it use the module's outputs and profiles.", b.Type,
			strings.ReplaceAll(eval.OneOf(moduleBlocks), " or ", " and "))
		return
	}
	name := func(b *hcl.Block) string { return b.Labels[len(b.Labels)-1] } // of steps it is unique over all kinds
	if len(b.Labels) > 0 {
		for _, before := range m.blocks[b.Type] {
			if name(before) == name(b) {
				sc.Fail(b.DefRange, "duplicate name", "There is another %s %q at %s. Names must be unique, so that they can be "+
					"referred to; rename one of them.", b.Type, name(b), sc.Files.Place(before.DefRange))
				return
			}
		}
	}
	m.blocks[b.Type] = append(m.blocks[b.Type], b)
}

// outputs evaluates the module with the inputs that ctx gives.
func (m *moduleCall) outputs(ctx *hcl.EvalContext) cty.Value {
	inputs, ok := m.inputs(ctx)
	if !ok {
		return cty.DynamicVal
	}
	inner := m.Inside(m.files)
	refs := inner.Files.References()
	inner.ModuleVariables(Root("variable"), m.blocks["variable"], inputs, refs)
	address := m.address + "module." + m.Block.Labels[0] + m.key
	nested := &moduleReader{Scope: inner, unvalued: m.unvalued, inside: append(slices.Clone(m.inside), m.dir),
		address: address + ".", log: m.log}
	inner.Values(m.blocks["locals"], []string{eval.ModuleKind}, nested.data(m.blocks["module"]), refs)
	out := map[string]cty.Value{}
	read := moduleRead{address: address, Scope: inner, blocks: m.blocks, outer: m.moduleReader.Scope,
		outputs: eval.ModuleOutputs{Module: m.Block.Labels[0], Each: m.each, Key: m.element, Values: out}}
	for _, b := range slices.Concat(m.blocks["output"], m.blocks["check"]) {
		if inner.NeedsNodes(b) {
			read.late = append(read.late, b)
			if b.Type == "output" {
				out[b.Labels[0]] = eval.OfNodes
			}
			continue
		}
		decodeResult(inner, b, inner.Ctx, out)
	}
	m.log.read = append(m.log.read, read)
	return cty.ObjectVal(out)
}

// inputs are the values for the module's variables, each with its place.
func (m *moduleCall) inputs(ctx *hcl.EvalContext) (eval.ModuleInputs, bool) {
	sc := m.moduleReader.Scope
	in := eval.ModuleInputs{Module: m.Block.Labels[0] + m.key, At: m.Block.DefRange,
		Values: map[string]eval.ModuleInput{}}
	a := m.Attrs["inputs"]
	if a == nil {
		return in, true
	}
	v, o := sc.EvaluateMarked(a.Expr, ctx, "inputs", cty.DynamicPseudoType, eval.Allow{Sensitive: true})
	if o == eval.IsNull {
		return in, true
	}
	if o != eval.IsValue {
		return in, false
	}
	whole, marks := v.Unmark()
	if t := whole.Type(); !t.IsObjectType() && !t.IsMapType() {
		sc.Fail(a.Expr.Range(), "wrong type", "The argument \"inputs\" wants an object with a value for each variable of "+
			"the module: { region = \"x\" }.")
		return in, false
	}
	places := inputPlaces(a.Expr)
	for it := whole.ElementIterator(); it.Next(); {
		k, e := it.Element()
		place := eval.ModuleInput{Value: e.WithMarks(marks), Key: a.Expr.Range(), At: a.Expr.Range()}
		if p, ok := places[k.AsString()]; ok {
			place.Key, place.At = p[0], p[1]
		}
		in.Values[k.AsString()] = place
	}
	return in, true
}

// inputPlaces is where the keys and values of an object stand, as far as it is written out.
func inputPlaces(e hcl.Expression) map[string][2]hcl.Range {
	out := map[string][2]hcl.Range{}
	pairs, list := hcl.ExprMap(e)
	if list.HasErrors() {
		return out
	}
	for _, p := range pairs {
		name := cmp.Or(hcl.ExprAsKeyword(p.Key), literalText(p.Key))
		out[name] = [2]hcl.Range{p.Key.Range(), p.Value.Range()}
	}
	return out
}

func literalText(e hcl.Expression) string {
	v, list := e.Value(nil)
	if list.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}
