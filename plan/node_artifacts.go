package plan

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/plan/rule"
	"nodejoin/steps"
)

// sources returns the artifacts that a machine's recipe needs; ok is false if one is missing or
// wrong, which was reported.
func (c *compiler) sources(m *block.Machine, names []string) (map[string]steps.Source, bool) {
	out, ok, near := map[string]steps.Source{}, true, m.Mirror == ""
	for _, name := range names {
		if name == recipe.AgentArtifact || name == recipe.SelfArtifact {
			src, good := c.agent(m)
			if name == recipe.SelfArtifact {
				src, good = c.nodejoin(m)
			}
			out[name], ok = src, ok && good
			continue
		}
		a := c.artifact(m, name)
		if a == nil {
			ok = false
			continue
		}
		a.Used, c.used["artifact"] = true, true
		if !a.OK {
			ok = false
			continue
		}
		src, good := c.upstream(m, name, a)
		out[name], ok = src, ok && good
		near = near || a.Source.URL == "" && a.Source.File == ""
	}
	if ok && !near {
		c.FailOn(m.Name, m.Range, "argument without effect", "Every artifact that node %q installs has its own url or "+
			"file, so nothing is fetched from its mirror. Remove the argument \"mirror\" of the node or its profile, or the "+
			"url or file of the artifacts that the mirror holds.", m.Name)
	}
	return out, ok
}

// artifact returns the block of an artifact that fits a machine best, or what stands for it where the plan needs
// none; nil, reported, if it does.
func (c *compiler) artifact(m *block.Machine, name string) *block.Artifact {
	var best *block.Artifact
	most := -1
	for _, a := range c.Artifacts[name] {
		if n, ok := a.Fits(m.OS, m.Arch); ok && n > most {
			best, most = a, n
		}
	}
	have, all := m.OS+"/"+m.Arch, c.Artifacts[name]
	_, owned := rule.VersionOwners[name]
	if best == nil && len(all) == 0 && (owned || !rule.NeedsVersion(c.Plan, name)) {
		best = c.impliedArtifact(name)
	}
	switch {
	case best == nil && c.failedBefore("artifact."+name+" "+have):
	case best == nil && len(all) == 0 && c.failedBefore("artifact."+name):
	case best == nil && len(all) == 0:
		c.Fail(c.clusterAt(), "missing artifact", "The nodes need the artifact %q, and no block gives its version. Add: "+
			"artifact %q { version = \"...\" }.", name, name)
	case best == nil:
		c.FailOn(m.Name, all[0].Range, "artifact for other nodes", "Node %q runs %s, and no block of the artifact %q is "+
			"for that. Add one with the argument os = %q beside this.", m.Name, have, name, m.OS)
	default:
		c.onePlatform(best, have, c.ownedVersion(m, name))
	}
	return best
}

// impliedArtifact stands for the block of an artifact of which the plan has to say nothing.
func (c *compiler) impliedArtifact(name string) *block.Artifact {
	if c.implied[name] == nil {
		c.implied[name] = &block.Artifact{Section: &eval.Section{Scope: c.Scope, Block: c.Written["cluster"][0], OK: true},
			Name: name, Range: c.clusterAt(), For: map[string]string{}}
	}
	return c.implied[name]
}

// onePlatform reports a block that is used for nodes of several platforms or versions, and names one file.
func (c *compiler) onePlatform(a *block.Artifact, have, version string) {
	if _, ok := a.For[have]; !ok {
		a.For[have] = version
	}
	if a.First == "" {
		a.First = have
	}
	switch {
	case a.For[have] != version && !c.failedBefore("artifact version at "+c.Files.Place(a.Range)+" "+a.Name):
		c.Fail(a.Range, "artifact for two versions", "Nodes of the plan want the versions %s and %s of the artifact "+
			"%q, and one digest cannot be for both. Use one version for all.", a.For[have], version, a.Name)
	case a.First != have && a.Pinned() && !c.failedBefore("artifact at "+c.Files.Place(a.Range)):
		argument := "os"
		if os, _, _ := strings.Cut(have, "/"); strings.HasPrefix(a.First, os+"/") {
			argument = "arch"
		}
		c.Fail(a.Range, "artifact for two kinds of nodes", "Nodes of the plan run %s and %s, and the programs of the "+
			"one do not run on the other, so one file cannot be for both. Give each a block of the artifact %q with the "+
			"argument %q.", a.First, have, a.Name, argument)
	}
}

// ownedVersion is the version of an artifact that another block gives, "" = none does.
func (c *compiler) ownedVersion(m *block.Machine, name string) string {
	if owner, has := rule.VersionOwners[name]; has && c.Cluster != nil {
		return owner.Version(c.Cluster, m)
	}
	return ""
}

// upstream completes the source of an artifact that names neither url nor file: its
// upstream name in the mirror, or its upstream address.
func (c *compiler) upstream(m *block.Machine, name string, a *block.Artifact) (src steps.Source, ok bool) {
	src = a.Source
	version := a.Version
	if owner, has := rule.VersionOwners[name]; has {
		version = owner.Version(c.Cluster, m)
	}
	if src.URL != "" || src.File != "" {
		return c.digest(m, a, Artifact{Version: version, Address: originOf(a, src), From: src, Source: src}), true
	}
	if c.Mirror != nil && c.Mirror.Path == "" && c.Mirror.URL == "" {
		return src, false // what is wrong with the mirror was reported
	}
	if version == "" && rule.NeedsVersion(c.Plan, name) {
		c.Fail(a.Range, "missing argument", "The artifact %q needs the argument \"version\": its upstream name or "+
			"address contains it, and no other block gives it.", name)
		return src, false
	}
	file, address := compat.Artifact(name, version, m.OS, m.Arch)
	switch {
	case file == "":
		c.Fail(a.Range, "artifact not published", "Upstream publishes no %s for %s/%s. Give url or file.", name, m.OS,
			m.Arch)
		return src, false
	case c.Mirror == nil && address == "" && name == compat.CSIProxy:
		c.Fail(a.Range, "artifact not published", "The project of csi-proxy publishes no program; it is built from its "+
			"source (make build). Give url or file, or a mirror.")
		return src, false
	case c.Mirror == nil && address == "":
		c.Fail(a.Range, "artifact not published",
			"The publisher of %s gives it to its customers and has no public address for it. Give url or file, or a "+
				"mirror.", name)
		return src, false
	}
	if version == "" {
		address = "" // it would have the version
	}
	w := Artifact{Version: version, MirrorFile: file, Upstream: address, Address: address,
		From: steps.Source{URL: address}}
	switch {
	case c.Mirror != nil && c.Mirror.Path != "":
		src.File, c.used["mirror"] = filepath.Join(c.Mirror.Path, file), true
		w.From, w.Address = src, "mirror:"+file
	case c.Mirror != nil:
		src.URL, c.used["mirror"] = block.InMirror(c.Mirror.URL, file), true
		if address == "" {
			w.From, w.Address = src, steps.ShowURL(src.URL)
		}
	default:
		src.URL = address
	}
	if m.Mirror != "" { // the lock has it from where the plan has it
		src.File, src.URL = "", block.InMirror(m.Mirror, file)
	}
	w.Source = src
	return c.digest(m, a, w), true
}

func (c *compiler) clusterAt() hcl.Range { return c.Written["cluster"][0].DefRange }

// failedBefore reports whether it was called before with the same key.
func (c *compiler) failedBefore(key string) bool {
	before := c.used["failed "+key]
	c.used["failed "+key] = true
	return before
}

// agent is the agent program for a machine.
func (c *compiler) agent(m *block.Machine) (steps.Source, bool) {
	key := m.OS + "/" + m.Arch + "/" + m.Connection.Type
	a, ok := c.agents[key]
	if !ok {
		if c.opt.Agent == nil {
			c.Fail(m.Range, "no agent", "This nodejoin has no agent for %s/%s.", m.OS, m.Arch)
			return steps.Source{}, false
		}
		c.Outside(func() { a.source, a.err = c.opt.Agent(m.OS, m.Arch, m.Connection.Type) })
		c.agents[key] = a
	}
	if errors.Is(a.err, context.Canceled) {
		c.Fail(m.Range, "interrupted", "The agent for %s/%s was not built to its end.", m.OS, m.Arch)
		return steps.Source{}, false
	}
	if a.err != nil {
		c.Fail(m.Range, "no agent", "The agent for %s/%s is not available: %s.", m.OS, m.Arch, a.err)
		return steps.Source{}, false
	}
	return a.source, true
}

// nodejoin is the program for a machine that follows a plan.
func (c *compiler) nodejoin(m *block.Machine) (src steps.Source, ok bool) {
	err := errors.New("there is none here")
	if c.opt.Self != nil {
		c.Outside(func() { src, err = c.opt.Self(m.OS, m.Arch, m.Connection.Type) })
	}
	if err != nil {
		c.FailOn(m.Name, m.SettingAt["follow_program"], "no nodejoin for the node", "Node %q follows a plan with the "+
			"program nodejoin for %s/%s: %s. Give the follow block its url or file, and its sha256.", m.Name, m.OS, m.Arch, err)
	}
	return src, err == nil
}

// unusedArtifacts reports artifacts that no node needs, and a mirror from which nothing is taken.
func (c *compiler) unusedArtifacts() {
	if c.Mirror != nil && c.used["artifact"] && !c.used["mirror"] {
		c.Fail(c.Mirror.Range, "block without effect", "Every artifact of the plan has its own url or file, so nothing "+
			"is taken from the mirror. Remove the mirror block, or the url or file of the artifacts that it holds.")
	}
	if c.used["mirror"] && c.Mirror.Path != "" && c.opt.Bundle == nil {
		switch fi, err := c.Files.Stat(c.Mirror.Path); { // missing files in it are reported when the hosts are checked
		case errors.Is(err, fs.ErrNotExist):
			c.Warn(c.Mirror.Range, "mirror is not there", "The folder %s does not exist on this machine, so nothing could "+
				"be installed from here. Create it with the artifacts in it, or fix the path.", c.Mirror.Path)
		case err == nil && !fi.IsDir():
			c.Warn(c.Mirror.Range, "mirror is not there",
				"%s is not a folder, so nothing could be installed from here. Fix the path.", c.Mirror.Path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Artifacts)) {
		for _, a := range c.Artifacts[name] {
			if len(c.Machines) > 0 && !a.Used {
				c.Warn(a.Range, "unused artifact", "No node of the plan needs the artifact %q%s. Remove it.", name, forNodes(a))
			}
		}
	}
}

// forNodes says in words which nodes an artifact is for.
func forNodes(a *block.Artifact) string {
	switch {
	case a.OS != "" && a.Arch != "":
		return " for " + a.OS + "/" + a.Arch
	case a.OS != "" || a.Arch != "":
		return " for " + a.OS + a.Arch
	}
	return ""
}
