package block

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
)

// settingSpecs are the blocks of settings of the machine itself, in a profile and in a node.
// Each argument of the node's block overrides that of the profile's; a named block replaces the
// whole block.
var settingSpecs = []*eval.Spec{proxySpec, firewallSpec, hostSpec, servicesSpec, csiProxySpec, exporterSpec, guardSpec,
	followSpec, fileSpec, imagesSpec, credentialProviderSpec}

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
			case guardSpec:
				j.guard()
			case followSpec:
				j.follow()
				j.followTrust(ctx)
			case fileSpec:
				j.file()
			case imagesSpec:
				j.images()
			case credentialProviderSpec:
				j.credentialProvider()
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

// Keep reports whether what the block made outlives it.
func (b SettingBlock) Keep() bool {
	g, ok := b.Args[keepAttr.Name]
	return ok && g.Value.True()
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
