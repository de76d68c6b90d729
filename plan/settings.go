package plan

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/kinds"
)

// settingSpecs are the blocks of what holds for the machine itself, in a profile and
// in a node. Of the node's and the profile's block, each argument of the node wins;
// blocks with a name stand for the whole.
var settingSpecs = []*eval.Spec{proxySpec, firewallSpec, hostSpec, servicesSpec, csiProxySpec, exporterSpec, fileSpec}

// setting is an argument as it was evaluated, with where it stands.
type setting struct {
	value  cty.Value
	secret bool
	at     hcl.Range
}

// settingBlock is what one block of settings says: its arguments, and with names the blocks
// inside it.
type settingBlock struct {
	at    hcl.Range
	args  map[string]setting
	rules map[string]settingBlock
}

// settings are the blocks of a machine: "proxy", "firewall", "host", and "file NAME".
type settings map[string]settingBlock

// over gives what holds when own is said on top of base.
func (own settings) over(base settings) settings {
	out := maps.Clone(base)
	if out == nil {
		out = settings{}
	}
	for key, o := range own {
		b, both := base[key]
		if !both || o.rules == nil {
			out[key] = o
			continue
		}
		args, rules := maps.Clone(b.args), maps.Clone(b.rules)
		maps.Copy(args, o.args)
		maps.Copy(rules, o.rules)
		out[key] = settingBlock{at: o.at, args: args, rules: rules}
	}
	return out
}

// says notes what a section says.
func says(s *eval.Section) settingBlock {
	out := settingBlock{at: s.Block.DefRange, args: map[string]setting{}}
	for name, v := range s.Values {
		out.args[name] = setting{v, s.Sensitive[name], s.At(name)}
	}
	return out
}

// settingBlocks reads the blocks of settings of a profile or node.
func settingBlocks(s *eval.Section, ctx *hcl.EvalContext) settings {
	out := settings{}
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
					s.Scope.Fail(b.DefRange, "duplicate block", "There is another %s block %q here. Rename one of them.", spec.Name, b.Labels[0])
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
				block.rules = j.rules
				if block.rules == nil {
					block.rules = map[string]settingBlock{}
				}
				out[key] = block
			}
			s.OK = s.OK && in.OK
		}
	}
	return out
}

// settingName judges the label of a block, which becomes part of a step's name.
func settingName(s *eval.Section) {
	if len(s.Block.Labels) > 0 && (!stepNameRE.MatchString(s.Block.Labels[0]) || len(s.Block.Labels[0]) > maxStepName-10) {
		s.FailAt(s.Block.LabelRanges[0], "invalid name", "%q cannot be the name of this block: it has lower-case letters, digits and '_', at most %d, since it becomes the name of a step.", s.Block.Labels[0], maxStepName-10)
	}
}

// settingJudge reads one block of settings.
type settingJudge struct {
	*eval.Section
	rules map[string]settingBlock
}

// machineSettings turns what holds for a machine into what its recipe is told.
func (c *compiler) machineSettings(m *machine, all settings) {
	before := c.Errors()
	w := &settingWriter{c: c, m: m, all: all}
	w.opened = w.ownPorts()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		b := all[key]
		switch {
		case key == "proxy":
			w.proxy(b)
		case key == "firewall":
			w.firewall(b)
		case key == "host":
			w.host(b)
		case key == "services":
			w.services(b)
		case key == "csi_proxy":
			w.csiProxy(b)
		case key == "windows_exporter":
			w.exporter(b)
		default:
			w.file(key[len("file "):], b)
		}
	}
	m.settings = w.out
	m.settingAt = w.at
	m.bad = m.bad || c.Errors() > before
}

// settingWriter collects the settings of one machine.
type settingWriter struct {
	c   *compiler
	m   *machine
	all settings
	out recipe.Settings
	// block is the host block that is being written.
	block settingBlock
	at    map[string]hcl.Range // of the steps
	// opened are the ports that rules open so far.
	opened []openPort
}

// add adds steps that an argument asks for.
func (w *settingWriter) add(at hcl.Range, list ...recipe.Setting) {
	for _, s := range list {
		s.Source = w.c.Files.Place(at)
		w.out.Steps = append(w.out.Steps, s)
		w.note(s.ID, at)
	}
}

func (w *settingWriter) note(id string, at hcl.Range) {
	if w.at == nil {
		w.at = map[string]hcl.Range{}
	}
	w.at[id] = at
}

// windowsOnly reports a block of Windows on another system; true when there is one.
func (w *settingWriter) windowsOnly(what string, at hcl.Range) bool {
	return w.ofWindows("A "+what+" block", at)
}

// ofWindows reports what, as it begins a sentence, on another system than Windows.
func (w *settingWriter) ofWindows(what string, at hcl.Range) bool {
	if w.m.OS == "windows" || w.m.OS == "" {
		return false
	}
	w.c.FailOn(w.m.Name, at, "setting for Windows", "%s says what Windows has, and node %q runs %s. Remove it, or give it to a profile of Windows nodes only.", what, w.m.Name, w.m.OS)
	return true
}

// text of an argument, "" where it is not given.
func (b settingBlock) text(name string) string {
	if g, ok := b.args[name]; ok {
		return g.value.AsString()
	}
	return ""
}

// texts of a list argument.
func (b settingBlock) texts(name string) []string {
	var out []string
	if g, ok := b.args[name]; ok {
		for it := g.value.ElementIterator(); it.Next(); {
			if _, e := it.Element(); !e.IsNull() {
				out = append(out, e.AsString())
			}
		}
	}
	return out
}

// fileSpec is a small file of the machine.
var fileSpec = &eval.Spec{Name: "file", Labels: []string{"name"}, Doc: "a small file of the machine, there before the services of the node start", Attrs: []eval.Attr{
	{Name: "path", Typ: cty.String, Required: true, Doc: "absolute path"},
	{Name: "content", Typ: cty.String, Required: true, Empty: true, Secret: true, Doc: "the whole content; it may be sensitive"},
	{Name: "access", Typ: cty.String, Doc: "\"private\": only the system and administrators; \"program\": executable on Linux"},
}}

func (j *settingJudge) file() {
	words := kindSpecs()["file"].args["access"].choices
	if a := j.Str("access"); a != "" && !slices.Contains(words, a) {
		j.Fail("access", "unknown value", "%q is nothing that %q can be. Use %s.%s", a, "access", eval.OneOf(words), eval.DidYouMean(a, words))
	}
	jsonFile(j.Section, map[string]any{"path": j.Str("path"), "content": j.Str("content")})
}

func (w *settingWriter) file(name string, b settingBlock) {
	path := b.text("path")
	if path == "" || w.m.OS == "" {
		return // reported
	}
	if why := badPath(w.m.OS, path); why != "" {
		w.c.Fail(b.args["path"].at, "invalid path", "%q cannot be a path on %s: %s.", path, w.m.OS, why)
		return
	}
	w.add(b.at, recipe.ManagedFile(name, kinds.File{Path: path, Content: b.text("content"), Access: access(b.text("access")), Sensitive: b.args["content"].secret}))
}
