package recipe

import (
	"encoding/json"
	"net/url"

	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// FollowLoginStep writes the login of a node that follows a plan.
const FollowLoginStep = "follow_login"

// followTrust are the files that say whom a node trusts that follows a plan, and its login.
type followTrust struct {
	Signers  string `json:"signers,omitempty"`
	Sigstore string `json:"sigstore,omitempty"`
	Login    string `json:"login,omitempty"`
}

// followTrust adds these files, and returns the ids of their steps. Only the system and administrators may open them.
func (b *build) followTrust(f *Follow) (t followTrust, ids []string) {
	file := func(id, title, name, content string, secret bool) string {
		path := host.Join(b.in.OS, b.data(), name)
		b.add(id, "file", title, &kinds.File{Path: path, Access: host.AccessPrivate, Content: content,
			Sensitive: secret}, "data_dir")
		ids = append(ids, id)
		return path
	}
	if f.Signers != "" {
		t.Signers = file("follow_signers", "Keys that may sign releases of the plan", "follow.signers", f.Signers, false)
	}
	if f.Sigstore != nil {
		trust := *f.Sigstore
		if f.TrustRoot != "" {
			trust.TrustRoot = file("follow_trust_root", "Who vouches for identities that sign releases",
				"follow.trusted_root.json", f.TrustRoot, false)
		}
		t.Sigstore = file("follow_sigstore", "Who may sign releases of the plan with Sigstore", "follow.sigstore.json",
			b.json(trust), false)
	}
	if f.Login != nil {
		login := *f.Login
		if u, err := url.Parse(f.Source); err == nil {
			login.Host = u.Host
		}
		t.Login = file(FollowLoginStep, "Login at the server of the releases", "follow.login.json", b.json(login), true)
	}
	return t, ids
}

// json is the text of a file.
func (b *build) json(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	b.fail(err)
	return string(text) + "\n"
}
