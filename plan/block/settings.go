package block

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
)

// keepAttr is in the blocks whose steps make something that may outlive the block.
var keepAttr = eval.Attr{Name: "keep", Typ: cty.Bool,
	Doc: "what the block made stays on the machine when the plan no longer has it"}

// settingSpecs are the blocks of settings of the machine itself, in a profile and in a node.
// Each argument of the node's block overrides that of the profile's; a named block replaces the
// whole block.
var settingSpecs = []*eval.Spec{proxySpec, firewallSpec, hostSpec, servicesSpec, csiProxySpec, exporterSpec, fileSpec}

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

// settingBlocks reads the blocks of settings of a profile or node.
func settingBlocks(s *eval.Section, ctx *hcl.EvalContext) Settings {
	out := Settings{}
	for _, spec := range settingSpecs {
		for _, b := range s.Blocks.OfType(spec.Name) {
			key := spec.Name
			if len(b.Labels) > 0 {
				key += " " + b.Labels[0]
			}
			in := s.Scope.Section(spec, b, ctx)
			if _, again := out[key]; again {
				if len(b.Labels) > 0 { // of the others, section says so
					in.OK = false
					s.Scope.Fail(b.DefRange, "duplicate block", "There is another %s block %q here. Rename one of them.", spec.Name,
						b.Labels[0])
				}
				s.OK = s.OK && in.OK
				continue
			}
			settingName(in)
			j := &settingJudge{Section: in}
			switch spec {
			case proxySpec:
				j.proxy()
			case firewallSpec:
				j.firewall(ctx)
			case hostSpec:
				j.host()
			case servicesSpec:
				j.services()
			case csiProxySpec:
				j.csiProxy()
			case exporterSpec:
				j.exporter()
			case fileSpec:
				j.file()
			}
			out[key] = says(in)
			if len(b.Labels) == 0 {
				block := out[key]
				block.Rules = j.rules
				if block.Rules == nil {
					block.Rules = map[string]SettingBlock{}
				}
				out[key] = block
			}
			s.OK = s.OK && in.OK
		}
	}
	return out
}

// settingName checks the label of a block, which becomes part of a step's name.
func settingName(s *eval.Section) {
	if len(s.Block.Labels) > 0 && (!stepNameRE.MatchString(s.Block.Labels[0]) ||
		len(s.Block.Labels[0]) > maxStepName-10) {
		s.FailAt(s.Block.LabelRanges[0], "invalid name", "%q cannot be the name of this block: it has lower-case "+
			"letters, digits and '_', at most %d, since it becomes the name of a step.", s.Block.Labels[0], maxStepName-10)
	}
}

// Keep reports whether what the block made outlives it.
func (b SettingBlock) Keep() bool {
	g, ok := b.Args[keepAttr.Name]
	return ok && g.Value.True()
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

// fileSpec is a small file of the machine.
var fileSpec = &eval.Spec{Name: "file", Labels: []string{"name"},
	Doc: "a small file of the machine, there before the services of the node start", Attrs: []eval.Attr{
		{Name: "path", Typ: cty.String, Required: true, Doc: "absolute path"},
		{Name: "content", Typ: cty.String, Required: true, Empty: true, Secret: true,
			Doc: "the whole content; it may be sensitive"},
		{Name: "access", Typ: cty.String,
			Doc: "\"private\": only the system and administrators; \"program\": executable on Linux"},
		keepAttr,
	}}

func (j *settingJudge) file() {
	words := KindSpecs()["file"].Args["access"].Choices
	if a := j.Str("access"); a != "" && !slices.Contains(words, a) {
		j.Fail("access", "unknown value", "%q is not a value of %q. Use %s.%s", a, "access", eval.OneOf(words),
			eval.DidYouMean(a, words))
	}
	JSONFile(j.Section, map[string]any{"path": j.Str("path"), "content": j.Str("content")})
}
