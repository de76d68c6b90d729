package rule

import (
	"maps"
	"slices"
	"strings"

	"nodejoin/plan/block"
)

// Unused warns of variables, locals, data and profiles that nothing refers to.
func Unused(p *block.Plan) {
	used := map[string]bool{}
	for _, r := range p.Refs {
		used[r.Root+"."+r.Name] = true
	}
	for _, o := range p.Profiles {
		used[o.Names] = true
	}
	for _, m := range p.Machines {
		used[m.Profile] = true
	}
	for _, b := range p.Written["variable"] {
		if !used["var."+b.Labels[0]] {
			p.Warn(b.DefRange, "unused variable", "Nothing refers to var.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, d := range p.Written["data"] {
		name := strings.Join(d.Labels, ".")
		if !used["data."+name] && !used["data."] {
			p.Warn(d.DefRange, "unused data", "Nothing refers to data.%s. Remove it, or use it.", name)
		}
	}
	for _, b := range p.Written["locals"] {
		attrs, _ := b.Body.JustAttributes()
		for _, n := range slices.Sorted(maps.Keys(attrs)) {
			if !used["local."+n] {
				p.Warn(attrs[n].NameRange, "unused local", "Nothing refers to local.%s. Remove it, or use it.", n)
			}
		}
	}
	for _, b := range p.Written["profile"] {
		if !used["profile."+b.Labels[0]] {
			p.Warn(b.DefRange, "unused profile", "No node has profile.%s. Remove it, or use it.", b.Labels[0])
		}
	}
}
