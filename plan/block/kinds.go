package block

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

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

var sourceType = reflect.TypeOf(steps.Source{})

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
			eval.Attr{Name: name, Typ: eval.CtyType(f.Type), Static: true, Doc: cmp.Or(s.Kind.Args[name], f.Tag.Get("doc"))})
	}
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
