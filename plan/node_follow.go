package plan

import (
	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
	"nodejoin/plan/signature"
)

// followTrust sets whom a node trusts that follows a plan, besides its keys of SSH, and its login.
func (w *settings) followTrust(b block.SettingBlock) {
	if s, given := b.Rules["sigstore"]; given {
		w.Follow.Sigstore = &signature.Trust{Version: signature.TrustVersion, Identities: s.Signers(),
			Keys: s.Texts("keys")}
		w.Follow.TrustRoot = s.Text("trust_root")
		w.at["follow_sigstore"], w.at["follow_trust_root"] = s.At, s.At
	}
	if l, given := b.Rules["login"]; given {
		w.Follow.Login = &recipe.FollowLogin{Username: l.Text("username"), Password: l.Text("password"),
			Token: l.Text("token")}
		w.at[recipe.FollowLoginStep] = l.At
	}
}
