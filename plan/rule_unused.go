package plan

import (
	"maps"
	"slices"
)

// unused warns of what is given and named nowhere.
func unused(p *decoded) {
	used := map[string]bool{}
	for _, r := range p.refs {
		used[r.Root+"."+r.Name] = true
	}
	for _, b := range p.written["profile"] {
		used["profile."+p.profiles[b.Labels[0]].names] = true
	}
	for _, m := range p.machines {
		used["profile."+m.profile] = true
	}
	for _, b := range p.written["variable"] {
		if !used["var."+b.Labels[0]] {
			p.Warn(b.DefRange, "unused variable", "Nothing refers to var.%s. Remove it, or use it.", b.Labels[0])
		}
	}
	for _, b := range p.written["locals"] {
		attrs, _ := b.Body.JustAttributes()
		for _, n := range slices.Sorted(maps.Keys(attrs)) {
			if !used["local."+n] {
				p.Warn(attrs[n].NameRange, "unused local", "Nothing refers to local.%s. Remove it, or use it.", n)
			}
		}
	}
	for _, b := range p.written["profile"] {
		if !used["profile."+b.Labels[0]] {
			p.Warn(b.DefRange, "unused profile", "No node has profile.%s. Remove it, or use it.", b.Labels[0])
		}
	}
}
