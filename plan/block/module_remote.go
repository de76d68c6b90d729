package block

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/origin"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

// remoteArguments are those of modules that are not beside the plan.
var remoteArguments = []string{"sha256", "path"}

// remoteModule reports whether a source is the address of a module that is not beside the plan.
func remoteModule(text string) bool {
	for _, scheme := range []string{"https://", "http://", "oci://"} {
		if strings.HasPrefix(text, scheme) {
			return true
		}
	}
	return false
}

// literal is the value of an argument that must be a literal string; what it is otherwise is reported.
func (m *moduleCall) literal(name, example string) (string, bool) {
	at := m.Attrs[name]
	v, list := at.Expr.Value(nil)
	if list.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		m.Fail(name, "invalid source", "The argument %q takes a literal string: what a plan consists of does not "+
			"depend on values. Write for example %s.", name, example)
		return "", false
	}
	return v.AsString(), true
}

// onlyRemote reports arguments that a module beside the plan does not need.
func (m *moduleCall) onlyRemote() {
	for _, name := range remoteArguments {
		if m.Has(name) {
			m.Fail(name, "argument without effect", "The argument %q is for a module that is read from an address; "+
				"this one is a folder beside the plan. Remove it.", name)
		}
	}
}

// fetch reads a module from elsewhere, and finds its folder. What is wrong is reported.
func (m *moduleCall) fetch(text string) (*source.Files, bool) {
	sc := m.moduleReader.Scope
	r, ok := m.remote(text)
	if !ok {
		return nil, false
	}
	inner := ""
	if m.Has("path") {
		if inner, ok = m.literal("path", `"windows"`); !ok {
			return nil, false
		}
		if !filepath.IsLocal(filepath.FromSlash(inner)) {
			m.Fail("path", "invalid path", "%q is not a folder of the module's archive. Write for example "+
				"\"modules-1.2.0/windows\".", inner)
			return nil, false
		}
	}
	switch {
	case sc.Files.Confined:
		m.Fail("source", "module refused", "With --untrusted nothing is read over the network. Put the module's "+
			"folder beside the plan.")
		return nil, false
	case sc.Module == nil:
		m.Fail("source", "module refused", "No module is read from elsewhere here.")
		return nil, false
	}
	dir, err := sc.Module(r)
	if err != nil {
		m.unread(err)
		return nil, false
	}
	m.log.remote = append(m.log.remote, r)
	m.Values["path"] = cty.StringVal(inner)
	m.dir = filepath.Join(dir, filepath.FromSlash(inner))
	return sc.Files.Unpacked(dir, shownName(r)), true
}

// folderHint names a folder with files of a module below one that has none.
func (m *moduleCall) folderHint() string {
	names, err := m.files.Glob(".", "**/*"+source.Suffix, eval.MaxElements)
	if err != nil || len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" There are some in another folder: path = %q.", path.Join(m.Values["path"].AsString(),
		path.Dir(names[0])))
}

// shownName is a short name of a module for places in its files.
func shownName(r source.Remote) string {
	name, _, _ := strings.Cut(r.Address, "?")
	return path.Base(name) + "@" + r.SHA256[:12]
}

// remote is where the module is, with its digest. What is wrong is reported.
func (m *moduleCall) remote(text string) (r source.Remote, ok bool) {
	fail := func(name, summary, format string, args ...any) (source.Remote, bool) {
		m.Fail(name, summary, format, args...)
		return source.Remote{}, false
	}
	if rest, oci := strings.CutPrefix(text, "oci://"); oci {
		address, digest, pinned := strings.Cut(rest, "@sha256:")
		digest = strings.ToLower(digest)
		if m.Has("sha256") {
			return fail("sha256", "argument without effect", "The digest of an OCI artifact is a part of its source: "+
				"oci://REGISTRY/REPOSITORY@sha256:DIGEST. Remove the argument.")
		}
		switch {
		case pinned && steps.DigestAlgorithm(digest) == "sha256" && strings.Contains(address, "/"):
			return source.Remote{Address: "oci://" + address, SHA256: digest}, true
		case origin.IsOCI(text):
			return m.locked(text)
		}
		return fail("source", "invalid source", "%q names no version of an artifact. Write "+
			"oci://REGISTRY/REPOSITORY:TAG, whose digest 'nodejoin lock' notes, or "+
			"oci://REGISTRY/REPOSITORY@sha256:DIGEST.", text)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return fail("source", "invalid source", "%q is not an address.", text)
	}
	if !steps.IsArchive(u.Path) {
		return fail("source", "invalid source", "A module is read from an archive, whose name ends in .tar.gz, .tgz, .tar "+
			"or .zip; %s does not. Git servers have one for each commit and tag, for example "+
			"https://github.com/ORGANIZATION/REPOSITORY/archive/refs/tags/v1.2.0.tar.gz.", u.Path)
	}
	if !m.Has("sha256") {
		if m.Misspelt("sha256") {
			return source.Remote{}, false
		}
		return m.locked(text)
	}
	digest, ok := m.literal("sha256", `"e3b0c442..." with 64 hex digits`)
	if digest = strings.ToLower(digest); ok && digest == "" {
		return m.locked(text)
	}
	origin.Digest(m.Section, "sha256", digest)
	return source.Remote{Address: text, SHA256: digest}, ok && steps.DigestAlgorithm(digest) == "sha256"
}

// locked is a module of which the plan gives no digest.
func (m *moduleCall) locked(address string) (source.Remote, bool) {
	sc := m.moduleReader.Scope
	if sc.Files.Confined || sc.Module == nil {
		return source.Remote{}, true // is not read, see fetch
	}
	digest, err := sc.ModuleDigest(address)
	if err != nil {
		m.unread(err)
		return source.Remote{}, false
	}
	if digest == "" {
		m.Fail("source", "module without a digest", "The address may have another archive tomorrow. Run 'nodejoin "+
			"lock', which notes the digest, or give it: sha256 for an archive, @sha256:DIGEST instead of an OCI tag.")
		return source.Remote{}, false
	}
	return source.Remote{Address: address, SHA256: digest, Locked: steps.ShowURL(address)}, true
}

// unread reports why the module cannot be read.
func (m *moduleCall) unread(err error) {
	m.Fail("source", "module not read", "The module %q cannot be read: %s.", m.Block.Labels[0],
		strings.TrimSuffix(err.Error(), "."))
}
