package rule

import (
	"strings"

	"nodejoin/plan/block"
)

// followTrust checks whom a follow block trusts, and where its login goes.
func followTrust(p *block.Plan, m *block.Machine, b block.SettingBlock) {
	_, keys := b.Args["signers"]
	if _, sigstore := b.Rules["sigstore"]; !keys && !sigstore {
		p.FailOn(m.Name, b.At, "missing argument", "The follow block of node %q needs the argument \"signers\" or a "+
			"sigstore block, here or in its profile: whose releases the node applies.", m.Name)
	}
	if login, given := b.Rules["login"]; given && !strings.Contains(b.Text("source"), "://") {
		p.FailOn(m.Name, login.At, "block without effect", "Node %q reads its releases from %q, a path, so there is no "+
			"server that this login is for. Remove it.", m.Name, b.Text("source"))
	}
}
