package block

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
)

// Setting is an evaluated argument with its place.
type Setting struct {
	Value  cty.Value
	Secret bool
	At     hcl.Range
}

// SettingBlock is one block of settings: its arguments, and the blocks inside it by name.
type SettingBlock struct {
	At    hcl.Range
	Args  map[string]Setting
	Rules map[string]SettingBlock
}

// Settings are the blocks of a machine: "proxy", "firewall", "host", and "file NAME".
type Settings map[string]SettingBlock

// over returns own laid over base.
func (own Settings) over(base Settings) Settings {
	if len(own) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = Settings{}
	}
	for key, o := range own {
		b, both := base[key]
		if !both || o.Rules == nil {
			out[key] = o
			continue
		}
		args, rules := maps.Clone(b.Args), maps.Clone(b.Rules)
		maps.Copy(args, o.Args)
		maps.Copy(rules, o.Rules)
		out[key] = SettingBlock{At: o.At, Args: args, Rules: rules}
	}
	return out
}

// says returns the arguments of a section.
func says(s *eval.Section) SettingBlock {
	out := SettingBlock{At: s.Block.DefRange, Args: map[string]Setting{}}
	for name, v := range s.Values {
		out.Args[name] = Setting{v, s.Sensitive[name], s.At(name)}
	}
	return out
}

// settingJudge reads one block of settings.
type settingJudge struct {
	*eval.Section
	rules map[string]SettingBlock
}

// Text returns an argument; "" if it is not given.
func (b SettingBlock) Text(name string) string {
	if g, ok := b.Args[name]; ok {
		return g.Value.AsString()
	}
	return ""
}

// Texts returns a list argument.
func (b SettingBlock) Texts(name string) []string {
	if g, ok := b.Args[name]; ok {
		return g.Texts()
	}
	return nil
}

// Texts returns the elements of a list.
func (g Setting) Texts() []string {
	var out []string
	for it := g.Value.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !e.IsNull() {
			out = append(out, e.AsString())
		}
	}
	return out
}

// hostSetting is an argument of the host block.
type hostSetting struct {
	Attr eval.Attr
	// judge reports what is wrong with the value; nil = every value is valid.
	judge func(j *settingJudge, name string)
	// Anywhere: it is for Linux too.
	Anywhere bool
	// Usual is the value that "defaults" gives, where the argument is not given; cty.NilVal = none.
	Usual cty.Value
}

func (j *settingJudge) oneOf(name string, words []string) {
	if v := j.Str(name); v != "" && !slices.Contains(words, v) {
		j.Fail(name, "unknown value", "%q is not a value of %q. Use %s.%s", v, name, eval.OneOf(words),
			eval.DidYouMean(v, words))
	}
}

// onlyTrue reports a false argument: it can turn something on, but not off.
func (j *settingJudge) onlyTrue(name string) {
	if !j.Bool(name) {
		j.Fail(name, "argument without effect", "%s = false leaves the machine as it is. Remove it.", name)
	}
}

// keepAttr is in the blocks whose steps make something that may outlive the block.
var keepAttr = eval.Attr{Name: "keep", Typ: cty.Bool,
	Doc: "what the block made stays on the machine when the plan no longer has it"}

// TextMap returns a map argument.
func (b SettingBlock) TextMap(name string) map[string]string {
	g, ok := b.Args[name]
	if !ok {
		return nil
	}
	out := map[string]string{}
	for it := g.Value.ElementIterator(); it.Next(); {
		if k, e := it.Element(); !e.IsNull() {
			out[k.AsString()] = e.AsString()
		}
	}
	return out
}

// Fields returns an argument that is an object; nil if it is not given or not one.
func (b SettingBlock) Fields(name string) map[string]any {
	g, ok := b.Args[name]
	if !ok {
		return nil
	}
	out, err := eval.AsJSON(g.Value)
	if err != nil {
		return nil // reported
	}
	return out
}
