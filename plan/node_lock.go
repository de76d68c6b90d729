package plan

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/lock"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

// digest completes the source of an artifact with the digest of the lock, and notes what the lock has to say.
// The artifact has its version and origins.
func (c *compiler) digest(m *block.Machine, a *block.Artifact, of Artifact) steps.Source {
	of.Name, of.OS, of.Arch, of.Range = a.Name, m.OS, m.Arch, a.Range
	w, src := wanted{of, nil, a}, of.Source
	w.From.SHA256, w.From.SHA512 = src.SHA256, src.SHA512
	w.Checksum = a.Str("checksum")
	if w.Checksum == "" && !w.pinned() && w.Upstream != "" && w.Address == w.Upstream {
		w.Checksum = compat.Checksum(w.Name, w.Version, w.OS, w.Arch)
	}
	if !w.pinned() && (!c.Verify.Names(a.Name) || c.Verify.Least(a.Name) == lock.Signature) {
		w.Signed = signedBy(a, w.Artifact)
	}
	w.entry = c.lock.Lookup(a.Name, w.Platform())
	if !slices.ContainsFunc(c.wanted, func(o wanted) bool { return o.Name == w.Name && o.Platform() == w.Platform() }) {
		c.wanted = append(c.wanted, w)
	}
	if !w.pinned() && w.entry != nil {
		src.SHA256 = w.entry.SHA256
	}
	return src
}

// originOf is the origin that an artifact block gives, as locks name it. It is the same on every machine, and shows
// nothing that may be secret.
func originOf(a *block.Artifact, src steps.Source) string {
	if src.URL != "" {
		return steps.ShowURL(src.URL)
	}
	return "file:" + path.Clean(filepath.ToSlash(a.Str("file")))
}

// artifacts are what the nodes install.
func (c *compiler) artifacts() (out []Artifact) {
	for _, w := range c.wanted {
		out = append(out, w.Artifact)
	}
	slices.SortFunc(out, func(a, b Artifact) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Platform(), b.Platform()))
	})
	return out
}

// judgeLock reports artifacts without a digest, and a lock that does not fit the plan.
func (c *compiler) judgeLock() {
	if c.opt.Locking {
		return
	}
	slices.SortFunc(c.wanted, func(a, b wanted) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Platform(), b.Platform()))
	})
	c.unlocked()
	if c.lock != nil && !c.List.HasErrors() { // what is wrong with the plan comes first
		c.misfits()
	}
	if !c.List.HasErrors() {
		c.Extend(unverified(c.Verify, c.artifacts(), c.lock))
	}
	if len(c.Machines) > 0 && !c.List.HasErrors() && len(c.Unvalued) == 0 {
		c.idleEntries()
	}
}

// unlocked reports the artifacts of a plan without a lock that have no digest.
func (c *compiler) unlocked() {
	if c.lock != nil {
		return
	}
	var names []string
	var at *hcl.Range
	for _, w := range c.wanted {
		if w.pinned() {
			continue
		}
		names = append(names, w.Name+" for "+w.Platform())
		if at == nil {
			at = &w.Range
		}
	}
	if at != nil {
		c.Fail(*at, "artifact without a digest", "Nothing is installed unchecked, and no digest is known of %s. Run '%s', "+
			"which reads what the plan installs and keeps the digests in %s; or give each artifact its sha256.",
			strings.Join(names, ", "), c.lockCommand(""), filepath.Base(c.lockFile))
	}
}

// misfits reports, as one, what of the lock does not fit the plan.
func (c *compiler) misfits() {
	var lines []string
	var at *hcl.Range
	for _, w := range c.wanted {
		why, e := "", w.entry
		switch {
		case e == nil && w.pinned():
		case e == nil:
			why = "is not in it"
		case e.Version != w.Version && e.Version != "" && w.Version != "":
			why = fmt.Sprintf("has the version %s in it, and the plan wants %s", e.Version, w.Version)
		case e.Version != w.Version:
			why = fmt.Sprintf("has the version %q in it, and %q in the plan", e.Version, w.Version)
		case e.Address != w.Address && (w.Upstream == "" || e.Address != w.Upstream): // a mirror has what upstream has
			why = fmt.Sprintf("comes from %s in it, and from %s in the plan", e.Address, w.Address)
		case w.block.Has("checksum") && e.Verified != lock.Signature && e.Checksum != steps.ShowURL(w.Checksum):
			why = fmt.Sprintf("was not verified by the checksum file %s", steps.ShowURL(w.Checksum))
		default:
			c.disagrees(w)
			c.judgeSignature(w)
		}
		if why == "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s for %s %s.", w.Name, w.Platform(), why))
		if e != nil && at == nil {
			at = &e.Range
		}
	}
	missing, place := c.unlockedImages()
	if lines = append(lines, missing...); len(lines) == 0 {
		return
	}
	if at == nil && len(missing) > 0 {
		at = &place
	}
	if at == nil { // none of them is in the lock
		for _, w := range c.wanted {
			if w.entry == nil && !w.pinned() && at == nil {
				at = &w.Range
			}
		}
	}
	c.Fail(*at, "the lock does not fit the plan", "%s %s Nothing is installed unchecked. Run '%s', and look at what it "+
		"changes.", filepath.Base(c.lockFile)+":", strings.Join(lines, " "), c.lockCommand(""))
}

// disagrees reports a digest of the plan that the lock has differently.
func (c *compiler) disagrees(w wanted) {
	for _, d := range []struct{ name, plan, lock string }{
		{"sha256", w.Source.SHA256, w.entry.SHA256}, {"sha512", w.Source.SHA512, w.entry.SHA512},
	} {
		if d.plan == "" || d.lock == "" || d.plan == d.lock {
			continue
		}
		c.Fail(w.block.At(d.name), "the plan and its lock disagree", "The plan gives %s for %s the %s %s, and its lock "+
			"has %s (%s). One of them is not what its publisher made. Correct it here; or, if the plan is right, run '%s'.",
			w.Name, w.Platform(), d.name, d.plan, d.lock, c.Files.Place(w.entry.Range), c.lockCommand("--upgrade "))
		return
	}
}

// namedEntries bounds the entries that one diagnostic names.
const namedEntries = 20

// idleEntries reports, as one, entries of the lock that no node needs.
func (c *compiler) idleEntries() {
	if c.lock == nil {
		return
	}
	var names []string
	var at hcl.Range
	for _, e := range c.lock.Entries {
		if !slices.ContainsFunc(c.wanted, func(w wanted) bool { return w.Name == e.Name && w.Platform() == e.Platform }) {
			if names = append(names, e.Name+" for "+e.Platform); len(names) == 1 {
				at = e.Range
			}
		}
	}
	for _, e := range c.lock.Images {
		if !slices.ContainsFunc(c.images, func(i Image) bool { return i.LockedAs(e) }) {
			if names = append(names, "the image "+e.Name+" for "+e.Platform); len(names) == 1 {
				at = e.Range
			}
		}
	}
	for _, e := range c.lock.Modules {
		if !slices.ContainsFunc(c.Modules, func(m source.Remote) bool { return m.Locked == e.Address }) {
			if names = append(names, "the module "+e.Address); len(names) == 1 {
				at = e.Range
			}
		}
	}
	more := ""
	if n := len(names) - namedEntries; n > 0 {
		names, more = names[:namedEntries], fmt.Sprintf(" and %d more", n)
	}
	if len(names) > 0 {
		c.Warn(at, "unused lock entry", "The plan does not need %s%s. '%s' removes it from the lock.",
			strings.Join(names, ", "), more, c.lockCommand(""))
	}
}
