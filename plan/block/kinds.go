package block

import (
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// Kind describes how a step block of one kind is decoded. It is derived from the kind's
// argument struct, so a new kind needs no code here.
type Kind struct {
	steps.Kind
	Block  *eval.Spec
	Args   map[string]Argument
	Source bool // takes an artifact source: url, file, sha256, sha512
	Absent bool // has the argument "absent", which makes most others unneeded
}

// Argument is one field of an argument struct. See steps.Kind for its tags.
type Argument struct {
	Typ      reflect.Type
	Required bool
	Fallback any // used when it is not written; nil = the field is left out
	Choices  []string
	ID       bool   // needed with "absent", too
	Present  bool   // without effect with "absent"
	path     bool   // one of the machine, or a list of such
	findings bool   // ids of findings that do not count
	Secret   bool   // takes a sensitive value
	OS       string // the one OS on which it has an effect
	With     string // the argument without which it has none, because of Why
	Why      string
}

// KindSpecs returns all kinds by name. It builds them once.
var KindSpecs = sync.OnceValue(func() map[string]*Kind {
	out := map[string]*Kind{}
	for _, k := range kinds.Catalog() {
		s := &Kind{Kind: k, Args: map[string]Argument{}, Block: &eval.Spec{Name: "step", Doc: k.Doc}}
		s.fields(reflect.TypeOf(k.New()).Elem())
		s.Block.Attrs = append(s.Block.Attrs, StepAttrs...)
		out[k.Name] = s
	}
	return out
})

// Types of arguments that the language writes as text or in a way of their own.
var (
	sourceType   = reflect.TypeOf(steps.Source{})
	DurationType = reflect.TypeOf(time.Duration(0))
	BytesType    = reflect.TypeOf([]byte(nil))
)

func (s *Kind) fields(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			s.Source = s.Source || f.Type == sourceType
			s.fields(f.Type)
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" || name == "-" || f.Tag.Get("lang") == "-" {
			continue
		}
		a := Argument{Typ: f.Type, Required: !strings.Contains(opts, "omitempty") && !strings.Contains(opts, "omitzero"),
			ID: f.Tag.Get("id") != "", Present: f.Tag.Get("present") != "", path: f.Tag.Get("path") != "",
			findings: f.Tag.Get("findings") != "", Secret: f.Tag.Get("secret") != "", OS: f.Tag.Get("os"),
			With: f.Tag.Get("with"), Why: f.Tag.Get("why")}
		if words, ok := f.Tag.Lookup("choices"); ok {
			a.Choices = strings.Split(words, ",")
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			a.Fallback, a.Required = text, false
			if f.Type.Kind() == reflect.Bool {
				a.Fallback = text == "true"
			}
		}
		s.Absent = s.Absent || name == "absent"
		s.Args[name] = a
		s.Block.Attrs = append(s.Block.Attrs,
			eval.Attr{Name: name, Typ: CtyType(f.Type), Static: true, Doc: cmp.Or(s.Kind.Args[name], f.Tag.Get("doc"))})
	}
}

// CtyType returns the type of a field in the language.
func CtyType(t reflect.Type) cty.Type {
	if t == DurationType || t == BytesType || IsText(t) {
		return cty.String
	}
	switch t.Kind() {
	case reflect.String:
		return cty.String
	case reflect.Bool:
		return cty.Bool
	case reflect.Int, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return cty.Number
	case reflect.Slice:
		return cty.List(CtyType(t.Elem()))
	case reflect.Map:
		return cty.Map(CtyType(t.Elem()))
	case reflect.Struct:
		attrs, optional := map[string]cty.Type{}, []string{}
		for i := range t.NumField() {
			name, opts, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			attrs[name] = CtyType(t.Field(i).Type)
			if strings.Contains(opts, "omitempty") {
				optional = append(optional, name)
			}
		}
		return cty.ObjectWithOptionalAttrs(attrs, optional)
	}
	panic(fmt.Sprintf("plan: no type of the language for %s", t))
}

// goValue turns a value of ctyType(t) into what encoding/json writes for t.
func goValue(v cty.Value, t reflect.Type) (any, error) {
	switch {
	case t == DurationType:
		d, err := time.ParseDuration(v.AsString())
		if err != nil {
			return nil, fmt.Errorf("%q is not a duration; write a number with its unit, for example \"10s\"", v.AsString())
		}
		return int64(d), nil
	case t == BytesType:
		if _, err := base64.StdEncoding.DecodeString(v.AsString()); err != nil {
			return nil, fmt.Errorf("it must be base64")
		}
		return v.AsString(), nil
	case IsText(t):
		if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v.AsString())); err != nil {
			return nil, err
		}
		return v.AsString(), nil
	}
	switch t.Kind() {
	case reflect.String:
		return v.AsString(), nil
	case reflect.Bool:
		return v.True(), nil
	case reflect.Slice:
		out := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			if e.IsNull() {
				return nil, fmt.Errorf("it holds a null element")
			}
			g, err := goValue(e, t.Elem())
			if err != nil {
				return nil, err
			}
			out = append(out, g)
		}
		return out, nil
	case reflect.Map:
		out := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			if e.IsNull() {
				return nil, fmt.Errorf("it has no value for %q", k.AsString())
			}
			g, err := goValue(e, t.Elem())
			if err != nil {
				return nil, err
			}
			out[k.AsString()] = g
		}
		return out, nil
	case reflect.Struct:
		return goStruct(v, t)
	}
	return number(v.AsBigFloat(), t)
}

// goStruct is goValue for a struct.
func goStruct(v cty.Value, t reflect.Type) (any, error) {
	out := map[string]any{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		e := v.GetAttr(name)
		if e.IsNull() {
			continue
		}
		g, err := goValue(e, t.Field(i).Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = g
	}
	return out, nil
}

// IsText reports whether values of a type are written as text, as encoding/json does.
func IsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func number(f *big.Float, t reflect.Type) (any, error) {
	bits := t.Bits()
	if k := t.Kind(); k == reflect.Int || k == reflect.Int64 {
		n, acc := f.Int64()
		if acc != big.Exact {
			return nil, fmt.Errorf("it must be a whole number")
		}
		return n, nil
	}
	n, acc := f.Uint64()
	if acc != big.Exact || bits < 64 && n >= 1<<bits {
		return nil, fmt.Errorf("it must be a whole number from 0 to %d", uint64(1<<bits-1))
	}
	return n, nil
}

// step is the kind's argument struct with these arguments. Those that a plan lacks, or
// that were reported as wrong, are zero.
func (s *Kind) step(args map[string]any) any {
	v := s.New()
	if raw, err := json.Marshal(args); err == nil {
		_ = json.Unmarshal(raw, v)
	}
	return v
}

// title is the short line that plans show for a step.
func (s *Kind) title(step any, args map[string]any) string {
	if s.Title != nil {
		return s.Title(step)
	}
	var names []string
	for _, a := range s.Block.Attrs {
		if text, ok := args[a.Name].(string); ok && s.Args[a.Name].ID {
			names = append(names, text)
		}
	}
	return cmp.Or(strings.Join(names, `\`), s.Name)
}

// replacedKinds are former kinds, with their replacements.
var replacedKinds = map[string]string{
	"require": "a step \"preflight\" takes its place, whose argument only names the findings to look for, " +
		"as in only = [\"administrator\", \"disk-space\"]",
}

// KindNames lists the kinds for people.
func KindNames() []string { return slices.Sorted(maps.Keys(KindSpecs())) }

// StepAttrs may be in every step block, besides the arguments of its kind.
var StepAttrs = []eval.Attr{
	{Name: "for_each", Typ: cty.DynamicPseudoType, Static: true,
		Doc: "a map or set of strings: one step for each element, named NAME_KEY"},
	{Name: "on", Static: true, Doc: "nodes that get the step, node.NAME or a list; default all"},
	{Name: "after", Typ: eval.Strings, Doc: "names of steps that come before this one"},
	{Name: "before", Typ: eval.Strings, Doc: "names of steps that come after this one"},
	{Name: "when", Typ: cty.Bool, Doc: "false leaves the step out"},
	{Name: "timeout", Typ: cty.String, Doc: "bound of one apply with its verification"},
	{Name: "retries", Typ: cty.Number, Doc: "further tries after a failure, at most 10"},
	{Name: "keep", Typ: cty.Bool, Doc: "what the step made stays on the machine when the plan no longer has the step"},
}
