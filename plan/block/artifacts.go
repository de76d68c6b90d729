package block

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/origin"
	"nodejoin/steps"
)

// Artifact is an artifact block.
type Artifact struct {
	*eval.Section
	Name    string
	Source  steps.Source // URL and File only where the block gives them
	Version string
	OS      string // of the nodes that it is for; "" = any
	Arch    string // as os
	Range   hcl.Range
	Used    bool
	// Signature is how its publisher signs it; nil = the block says nothing about it.
	Signature *ArtifactSignature
	// For are the platforms of the nodes that get it, "windows/amd64", each with the version that its first node
	// wants; "" where no block gives one.
	For   map[string]string
	First string // the platform of the first node that got it
}

// ArtifactSignature is the signature block of an artifact.
type ArtifactSignature struct{ Bundle, Identity, Issuer string }

// artifactSignature reads the signature block of an artifact; nil if there is none.
func artifactSignature(s *eval.Section) *ArtifactSignature {
	for _, b := range s.Blocks.OfType("signature") {
		in := s.Scope.Section(artifactSignatureSpec, b, s.Scope.Ctx)
		origin.WebAddress(in, "bundle")
		s.OK = s.OK && in.OK
		return &ArtifactSignature{Bundle: in.Str("bundle"), Identity: in.Str("identity"), Issuer: in.Str("issuer")}
	}
	return nil
}

// Pinned reports whether it names one file, by its digest or origin, so that it is for one platform.
func (a *Artifact) Pinned() bool {
	return slices.ContainsFunc([]string{"sha256", "sha512", "url", "file"}, a.Has)
}

// Fits reports whether an artifact is for nodes of an OS and architecture, and how many of the
// two it names.
func (a *Artifact) Fits(os, arch string) (closeness int, ok bool) {
	if a.OS != "" && a.OS != os || a.Arch != "" && a.Arch != arch {
		return 0, false
	}
	return eval.Btoi(a.OS != "")*2 + eval.Btoi(a.Arch != ""), true
}

// artifactBlocks reads the artifact blocks.
func decodeArtifacts(sc *eval.Scope, blocks []*hcl.Block) map[string][]*Artifact {
	out := map[string][]*Artifact{}
	for _, b := range blocks {
		name := b.Labels[0]
		s := sc.Section(Root("artifact"), b, sc.Ctx)
		if !slices.Contains(compat.ArtifactNames(), name) {
			sc.Fail(b.LabelRanges[0], "unknown artifact", "%s", eval.UnknownName("artifact", name, compat.ArtifactNames()))
			continue
		}
		a := &Artifact{Section: s, Name: name, Version: version(s, "version"), OS: s.Str("os"), Arch: s.Str("arch"),
			Range: b.DefRange, For: map[string]string{}}
		knownOS(s, "os", a.OS)
		knownArch(s, "arch", a.Arch)
		a.Source = origin.Artifact(s, b.DefRange, false)
		origin.WebAddress(s, "checksum")
		a.Signature = artifactSignature(s)
		same := func(o *Artifact) bool { return o.OS == a.OS && o.Arch == a.Arch }
		if i := slices.IndexFunc(out[name], same); i >= 0 {
			sc.Fail(b.DefRange, "duplicate artifact", "There is another artifact %q for the same nodes at %s. One can be "+
				"for each operating system and architecture: os = \"linux\". Remove one of them.", name,
				sc.Files.Place(out[name][i].Range))
			continue
		}
		out[name] = append(out[name], a)
	}
	return out
}
