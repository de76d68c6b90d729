package block

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
)

// decodeProfiles reads the profiles of the plan and of its modules, and gives each what it inherits. version is the
// cluster's of Kubernetes; "" = not known.
func decodeProfiles(sc *eval.Scope, blocks []*hcl.Block, modules []moduleRead, version string) profileSet {
	set := profileSet{all: map[string]*Profile{}, modules: map[string]bool{}}
	var addresses []string
	insides := map[string]profileSet{}
	read := func(in profileSet, sc *eval.Scope, blocks []*hcl.Block) {
		for _, b := range blocks {
			s := sc.Section(Root("profile"), b, sc.Ctx)
			p := machineArgs(s, sc.Ctx, version)
			p.known = s.OK || p.OS != ""
			address := in.inside + "profile." + b.Labels[0]
			addresses = append(addresses, address)
			set.all[address], insides[address] = p, in
		}
	}
	read(set, sc, blocks)
	for _, m := range modules {
		set.modules[m.address] = true
		read(set.of(m.address), m.Scope, m.blocks["profile"])
	}
	l := &lineage{profiles: set.all, parents: map[string]string{}, done: map[string]bool{}}
	for _, n := range addresses {
		p := l.profiles[n]
		address, known := insides[n].named(p.Section, "inherits")
		p.Names = address
		if known {
			l.parents[n] = address
		} else if p.Has("inherits") {
			p.known = p.OS != ""
		}
	}
	for _, n := range addresses {
		l.inherit(n, nil)
	}
	return set
}

// lineage completes profiles with what they inherit.
type lineage struct {
	profiles map[string]*Profile
	parents  map[string]string
	done     map[string]bool
}

// inherit completes a profile with its parent's settings, the parent first. Those
// in a circle are reported once, and inherit nothing.
func (l *lineage) inherit(name string, path []string) {
	p := l.profiles[name]
	if i := slices.Index(path, name); i >= 0 {
		circle := append(slices.Clone(path[i:]), name)
		p.Fail("inherits", "profiles in a circle",
			"Each of these inherits from the next one, so none has settings: %s. Remove one of the links.",
			strings.Join(circle, " -> "))
		for _, n := range circle {
			l.done[n] = true
			l.profiles[n].known = false
		}
		return
	}
	if l.done[name] {
		return
	}
	if parent, ok := l.parents[name]; ok {
		l.inherit(parent, append(path, name))
		if l.done[name] {
			return // it was in a circle
		}
		base := l.profiles[parent]
		all := p.over(base)
		all.known = p.known && (base.known || p.OS != "")
		l.profiles[name] = all
	}
	l.done[name] = true
}
