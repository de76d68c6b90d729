package eval

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"nodejoin/plan/source"
)

// templateFile renders a file as a template of the language with the given values.
// Its own names are not known in it. Values known only later may be among them.
func (sc *Scope) templateFile(table map[string]function.Function) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, templateValues},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name := args[0].AsString()
			src, err := sc.read(name)
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			leave, err := sc.enterTemplate(name)
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			defer leave()
			return sc.renderTemplate(name, src, args[1], table)
		}})
}

// templateString is templateFile for a text that is a value.
func (sc *Scope) templateString(table map[string]function.Function) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "template", Type: cty.String, AllowMarked: true}, templateValues},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			src, marks := args[0].Unmark()
			if _, isLater := marks[later]; isLater {
				return cty.NilVal, function.NewArgErrorf(0, "the value is known only when the node is joined; give it among "+
					"the values, and name it in the template")
			}
			leave, err := sc.enterTemplate(anyText + src.AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			defer leave()
			v, err := sc.renderTemplate("the text", src.AsString(), args[1], table)
			if _, secret := marks[sensitive]; secret && err != nil {
				err = fmt.Errorf("it failed; the template is sensitive, so the reason is not shown")
			}
			return v.WithMarks(marks), err
		}})
}

var templateValues = function.Parameter{Name: "values", Type: cty.DynamicPseudoType, AllowMarked: true}

// renderTemplate renders a template; name is how errors call it.
func (sc *Scope) renderTemplate(name, src string, with cty.Value, table map[string]function.Function,
) (cty.Value, error) {
	values, outer := with.Unmark()
	if t := values.Type(); !t.IsObjectType() && !t.IsMapType() || values.IsNull() {
		return cty.NilVal, function.NewArgErrorf(1, "a map of values by name is wanted")
	}
	key := name + "\x00" + src
	expr, ok := sc.templates[key]
	if !ok {
		parsed, list := source.ParseTemplate([]byte(src), name, sc.Files.Place)
		if list.HasErrors() {
			return cty.NilVal, list.Errs()[0]
		}
		sc.templates[key], expr = parsed, parsed
	}
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: table}
	_, secret, _ := marksOf(with)
	for it := values.ElementIterator(); it.Next(); {
		k, v := it.Element()
		ctx.Variables[k.AsString()] = v
	}
	v, list := expr.Value(ctx)
	if list.HasErrors() {
		if secret {
			return cty.NilVal, fmt.Errorf("%s does not render; a value is sensitive, so the reason is not shown", name)
		}
		return cty.NilVal, list.Errs()[0]
	}
	v, err := convert.Convert(v, cty.String)
	if err != nil {
		return cty.NilVal, fmt.Errorf("%s does not give a text: %w", name, err)
	}
	return v.WithMarks(outer), nil
}

// maxTemplates is how deep templates may render others. It ends paths through links, in which one file has no end
// of names.
const maxTemplates = 50

// anyText begins what stands for a text among the paths of files that are being rendered.
const anyText = "\x00"

// enterTemplate notes that the template, a file by its name or a text after anyText, is being rendered until the
// returned function runs. A template that would render itself, by itself or through others, would have no end: that is
// an error.
func (sc *Scope) enterTemplate(name string) (leave func(), err error) {
	path, shown := name, "the text"
	if !strings.HasPrefix(name, anyText) {
		path, shown = sc.Files.Abs(name), name
	}
	if i := slices.Index(sc.rendering, path); i >= 0 {
		through := ""
		for _, p := range sc.rendering[i+1:] {
			if strings.HasPrefix(p, anyText) {
				p = "a text"
			}
			through += filepath.Base(p) + " and "
		}
		if through != "" {
			through = ", through " + strings.TrimSuffix(through, " and ")
		}
		return nil, fmt.Errorf("%s renders itself%s, so it would never end; a template may only render others",
			shown, through)
	}
	if len(sc.rendering) == maxTemplates {
		return nil, fmt.Errorf("more than %d templates render each other, each inside the one before", maxTemplates)
	}
	sc.rendering = append(sc.rendering, path)
	return func() { sc.rendering = sc.rendering[:len(sc.rendering)-1] }, nil
}
