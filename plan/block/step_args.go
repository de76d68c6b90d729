package block

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/names"
	"nodejoin/plan/origin"
	"nodejoin/steps"
)

// argReader evaluates the arguments of one step.
type argReader struct {
	*eval.Section
	kind   *Kind
	block  *hcl.Block
	m      *Machine
	args   map[string]any
	null   map[string]hcl.Range // arguments that are written and null
	absent bool                 // absent = true
	secret bool                 // some value is sensitive
}

// kindArgs evaluates the arguments of the kind.
func kindArgs(kind *Kind, m *Machine, s *eval.Section, ctx *hcl.EvalContext) map[string]any {
	r := &argReader{Section: s, kind: kind, block: s.Block, m: m, args: map[string]any{}, null: map[string]hcl.Range{}}
	for _, spec := range kind.Block.Attrs {
		if arg, mine := kind.Args[spec.Name]; mine {
			r.read(spec, arg, ctx)
		}
	}
	r.absent = r.args["absent"] == true
	if kind.Source {
		r.source()
	}
	r.missing()
	if r.absent {
		r.describing()
	}
	if r.secret {
		r.args["sensitive"] = true // whatever the block says
	}
	return r.args
}

// read evaluates and checks one argument.
func (r *argReader) read(spec eval.Attr, arg Argument, ctx *hcl.EvalContext) {
	name := spec.Name
	at := r.Attrs[name]
	if at == nil {
		if arg.Fallback != nil {
			r.args[name] = arg.Fallback
		}
		return
	}
	v, marked, outcome := r.Scope.Evaluate(at.Expr, ctx, name, spec.Typ, eval.Allow{Sensitive: arg.Secret, Later: true})
	switch outcome {
	case eval.IsWrong:
		r.OK = false
		return
	case eval.IsNull:
		if arg.Fallback != nil {
			r.args[name] = arg.Fallback
		} else {
			r.null[name] = at.Expr.Range()
		}
		delete(r.Attrs, name)
		return
	}
	r.secret = r.secret || marked
	g, err := eval.GoValue(v, arg.Typ)
	if err != nil {
		r.Fail(name, "wrong type", "The argument %q is wrong: %s.", name, err)
		return
	}
	r.args[name] = g
	r.check(name, arg, g)
}

// source completes the arguments of an artifact source.
func (r *argReader) source() {
	// Known to the section as static arguments: evaluated above.
	for _, n := range []string{"url", "file", "sha256", "sha512"} {
		if text, ok := r.args[n].(string); ok {
			r.Values[n] = cty.StringVal(text)
		}
	}
	src := origin.Artifact(r.Section, r.block.DefRange, true)
	for n, v := range map[string]string{"file": src.File, "sha256": src.SHA256, "sha512": src.SHA512} {
		if v != "" {
			r.args[n] = v
		}
	}
}

// missing reports arguments that the kind needs and that have no value.
func (r *argReader) missing() {
	for _, spec := range r.kind.Block.Attrs {
		name, arg := spec.Name, r.kind.Args[spec.Name]
		_, given := r.args[name]
		needed := arg.Required && (arg.ID || !r.absent)
		if given || !needed || r.Has(name) || r.Misspelt(name) {
			continue
		}
		r.OK = false
		if at, ok := r.null[name]; ok {
			r.Scope.Fail(at, "missing value", "The argument %q is null here, and a step of kind %q needs it%s", name,
				r.kind.Name, eval.Explain(spec.Doc))
			continue
		}
		r.Scope.Fail(r.block.DefRange, "missing argument", "A step of kind %q needs the argument %q%s", r.kind.Name, name,
			eval.Explain(spec.Doc))
	}
}

// describing takes out the arguments that describe a thing that exists, for a step that wants
// it absent: defaults quietly, what is written with a diagnostic.
func (r *argReader) describing() {
	for _, name := range slices.Sorted(maps.Keys(r.args)) {
		arg := r.kind.Args[name]
		switch {
		case arg.Fallback != nil && !r.Has(name):
			delete(r.args, name)
		case arg.Present && r.Has(name):
			r.OK = false
			r.Scope.Fail(r.Attrs[name].NameRange, "argument without effect",
				"With absent = true the argument %q has no effect. Remove one of the two.", name)
		}
	}
}

// check checks the value of one argument against the words that it can be, or the form
// of paths.
func (r *argReader) check(name string, arg Argument, v any) {
	if list, isList := v.([]any); isList {
		switch {
		case arg.findings:
			checkWaived(r.Section, name, texts(list))
		case arg.path:
			for _, one := range list {
				r.checkPath(name, one)
			}
		}
		return
	}
	text, isText := v.(string)
	if !isText || steps.HasRef(text) {
		return
	}
	if arg.Choices != nil && !slices.Contains(arg.Choices, text) {
		r.Fail(name, "unknown value", "%q is not a value of %q. Use %s.%s", text, name, eval.OneOf(arg.Choices),
			eval.DidYouMean(text, arg.Choices))
		return
	}
	if arg.path {
		r.checkPath(name, text)
	}
}

func (r *argReader) checkPath(name string, v any) {
	text, isText := v.(string)
	if !isText || steps.HasRef(text) || r.m.OS == "" {
		return
	}
	if why := names.BadPath(r.m.OS, text); why != "" {
		r.Fail(name, "invalid path", "%q cannot be a path on %s: %s.", text, r.m.OS, why)
	}
}

// texts are the elements of a list of strings; one that is not a string is "".
func texts(list []any) (out []string) {
	for _, v := range list {
		text, _ := v.(string)
		out = append(out, text)
	}
	return out
}
