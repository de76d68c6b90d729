package block

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/names"
	"nodejoin/steps/kube"
)

// Profile is a profile block, or the same arguments of a node.
type Profile struct {
	*eval.Section            // the block
	Names             string // address of the profile that the block names; "" = none
	OwnMaxPods        int    // of the block itself; 0 = it does not say
	known             bool   // a profile block that is there
	OS, arch, dataDir string
	adapter           string // the argument interface
	mirror            string // address of one near the machine; "" = that of the plan
	build             string
	onFailure         string
	maxPods           int
	waive             []string // sorted
	labels            map[string]string
	taints            []kube.Taint
	components        map[string]component // by block
	settings          Settings
}

// over returns p laid over base.
func (p *Profile) over(base *Profile) *Profile {
	out := &Profile{Section: p.Section, Names: p.Names, OwnMaxPods: p.OwnMaxPods, known: p.known, OS: cmp.Or(p.OS,
		base.OS), arch: cmp.Or(p.arch, base.arch), dataDir: cmp.Or(p.dataDir, base.dataDir), build: cmp.Or(p.build,
		base.build), adapter: cmp.Or(p.adapter, base.adapter), mirror: cmp.Or(p.mirror, base.mirror),
		onFailure: cmp.Or(p.onFailure, base.onFailure), maxPods: p.maxPods, labels: map[string]string{}}
	if out.maxPods == 0 {
		out.maxPods = base.maxPods
	}
	for _, from := range []map[string]string{base.labels, p.labels} {
		for k, v := range from {
			out.labels[k] = v
		}
	}
	out.taints = slices.Clone(base.taints)
	for _, t := range p.taints {
		if i := sameTaint(out.taints, t); i >= 0 {
			out.taints[i] = t
			continue
		}
		out.taints = append(out.taints, t)
	}
	out.waive = slices.Concat(base.waive, p.waive)
	slices.Sort(out.waive)
	out.waive = slices.Compact(out.waive)
	out.components = componentsOver(p.components, base.components)
	out.settings = p.settings.over(base.settings)
	return out
}

// failures are the values of on_failure.
var failures = []string{"keep", "rollback"}

// machineArgs reads the arguments that profiles and nodes share.
func machineArgs(s *eval.Section, ctx *hcl.EvalContext, version string) *Profile {
	p := &Profile{Section: s, OS: s.Str("os"), arch: s.Str("arch"), dataDir: s.Str("data_dir"), build: s.Str("build"),
		adapter: s.Str("interface"), mirror: s.Str("mirror"), onFailure: s.Str("on_failure"),
		maxPods: int(s.Int("max_pods", 1, 65535, 0)), labels: s.StrMap("labels")}
	p.OwnMaxPods = p.maxPods
	knownOS(s, "os", p.OS)
	knownArch(s, "arch", p.arch)
	if why := names.BadAdapter(p.adapter); why != "" {
		s.Fail("interface", "invalid adapter", "%q cannot be the name of a network adapter: %s.", p.adapter, why)
	}
	mirrorAddress(s, "mirror")
	if f := p.onFailure; f != "" && !slices.Contains(failures, f) {
		s.Fail("on_failure", "unknown value", "%q is not a value of %q. Use %s.%s", f, "on_failure",
			eval.OneOf(failures), eval.DidYouMean(f, failures))
	}
	for _, k := range slices.Sorted(maps.Keys(p.labels)) {
		if why := names.BadLabel(k, p.labels[k]); why != "" {
			s.FailAt(s.AtKey("labels", k), "invalid label", "%q = %q cannot be a label of a Node: %s.", k, p.labels[k], why)
		}
	}
	for _, b := range s.Blocks.OfType("taint") {
		t := s.Scope.Section(taintSpec, b, ctx)
		taint := kube.Taint{Key: t.Str("key"), Value: t.Str("value"), Effect: t.Str("effect")}
		if e := taint.Effect; e != "" && e != "NoSchedule" && e != "PreferNoSchedule" && e != "NoExecute" {
			t.Fail("effect", "unknown effect", "%q is not an effect of a taint. %s", e,
				cmp.Or(strings.TrimSpace(eval.DidYouMean(e, taintEffects)), "Use "+eval.OneOf(taintEffects)+"."))
		}
		if taint.Key != "" {
			if why := names.BadLabel(taint.Key, taint.Value); why != "" {
				t.Fail("key", "invalid taint", "%q = %q cannot be a taint of a Node: %s.", taint.Key, taint.Value, why)
			}
		}
		s.OK = s.OK && t.OK
		if i := sameTaint(p.taints, taint); i >= 0 && taint.Key != "" && taint.Effect != "" {
			s.FailAt(b.DefRange, "duplicate taint",
				"There is another taint with the key %q and the effect %s here, and a Node can have one. Remove one of them.",
				taint.Key, taint.Effect)
			continue
		}
		p.taints = append(p.taints, taint)
	}
	labelKeys(s, p.labels, p.taints, version)
	if p.build != "" && !compat.ValidBuild(p.build) && s.Spec.Name == "profile" {
		s.Fail("build", "invalid build", "%q is not a Windows build. Write it as 10.0.20348.", p.build)
	}
	p.waive = waived(s)
	p.components = componentBlocks(s, ctx, version)
	p.settings = settingBlocks(s, ctx)
	return p
}

// What nodes run.
var (
	systems       = []string{"windows", "linux"}
	architectures = []string{"amd64", "arm64"}
)

// knownOS reports an unknown operating system.
func knownOS(s *eval.Section, name, os string) {
	if os != "" && !slices.Contains(systems, os) {
		s.Fail(name, "unknown operating system", "%q is not an operating system that nodejoin knows.%s", os,
			cmp.Or(eval.DidYouMean(os, systems), " Use "+eval.OneOf(systems)+"."))
	}
}

// knownArch reports an unknown architecture.
func knownArch(s *eval.Section, name, arch string) {
	if arch != "" && !slices.Contains(architectures, arch) {
		s.Fail(name, "unknown architecture", "%q is not an architecture that nodejoin knows. Use %s.", arch,
			eval.OneOf(architectures))
	}
}
