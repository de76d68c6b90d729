package rule

import (
	"strings"

	"nodejoin/plan/block"
	"nodejoin/plan/names"
	"nodejoin/steps"
)

// follow reports a follow block that a node cannot have. Node and profile may each give a part.
func follow(p *block.Plan, m *block.Machine) {
	b, ok := m.Said["follow"]
	switch {
	case !ok || reported(p, b.At):
		return
	case len(p.Written["cluster"]) == 0:
		p.FailOn(m.Name, b.At, "block without effect",
			"Node %q joins no cluster, so it has no service of nodejoin that could follow a plan. Remove it.", m.Name)
		return
	}
	for _, name := range []string{"plan", "source"} {
		if _, given := b.Args[name]; !given {
			p.FailOn(m.Name, b.At, "missing argument", "The follow block of node %q needs the argument %q, here or in its "+
				"profile.", m.Name, name)
			return
		}
	}
	if text := b.Text("source"); m.OS != "" && !strings.Contains(text, "://") {
		if why := names.BadPath(m.OS, text); why != "" {
			p.FailOn(m.Name, b.Args["source"].At, "invalid source", "%q is neither an address nor a file on %s: %s.", text,
				m.OS, why)
		}
	}
	followTrust(p, m, b)
	followProgram(p, m, b)
}

// followProgram checks where the program of a follow block comes from.
func followProgram(p *block.Plan, m *block.Machine, b block.SettingBlock) {
	_, address := b.Args["url"]
	file, local := b.Args["file"]
	if address && local {
		p.FailOn(m.Name, file.At, "arguments exclude each other", "The program of node %q comes from a url or from a file, "+
			"and its block and its profile give both. Remove one of the two.", m.Name)
	}
	if src := b.ProgramSource(); steps.IsArchive(strings.SplitN(src.Name(), "?", 2)[0]) {
		p.FailOn(m.Name, b.At, "archive instead of a program", "%s, which the follow block of node %q names, is an "+
			"archive. Unpack it, and give the program nodejoin itself.", src.Name(), m.Name)
	}
	for _, name := range []string{"sha256", "sha512"} {
		if g, given := b.Args[name]; given && !address && !local {
			p.FailOn(m.Name, g.At, "argument without effect", "The follow block of node %q gives neither \"url\" nor "+
				"\"file\", so this is the digest of nothing. Remove it.", m.Name)
		}
	}
}
