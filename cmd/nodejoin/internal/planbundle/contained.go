package planbundle

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/steps"
)

// Contained compiles a plan as from a bundle that has these files and what the lock has. It returns what would be
// missing, and the texts of the plan.
func Contained(path string, opt plan.Options, files []string, f *lock.File) (hcl.Diagnostics, map[string]*hcl.File) {
	opt.Bundle = demands(RootOf(path, files), f)
	p, diags := plan.Load(path, opt)
	if !diags.HasErrors() {
		_, diags = p.Compile()
	}
	return diags, p.Files()
}

// demands is a plan.Bundle for a plan that is not in a bundle yet: it has what the lock has.
func demands(root string, f *lock.File) *plan.Bundle {
	return &plan.Bundle{Root: root, File: func(src steps.Source) string { return src.Name() },
		Image: func(name, os, arch string) steps.Source {
			if f == nil {
				return steps.Source{}
			}
			for _, i := range f.Images {
				if i.Name == name && strings.HasPrefix(i.Platform, os) && strings.HasSuffix(i.Platform, "/"+arch) {
					return steps.Source{File: "image", SHA256: strings.TrimPrefix(i.Digest, "sha256:")}
				}
			}
			return steps.Source{}
		}}
}
