package block

import (
	"crypto/tls"
	"strings"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

// registryLogin reads the credentials of a registry block.
type registryLogin struct{ *eval.Section }

func (l *registryLogin) read(r *recipe.Registry) {
	l.user(r)
	r.Token = l.Token()
	l.certificate(r)
	if r.Username == "" && r.Token == "" && r.Certificate == "" {
		return
	}
	for i, m := range r.Mirrors {
		if strings.HasPrefix(m, "http://") {
			l.FailAt(l.AtIndex("mirrors", i), "credentials without encryption", "%q is not encrypted, so everybody on the way "+
				"could read the credentials of this block. Use https.", m)
		}
	}
}

func (l *registryLogin) user(r *recipe.Registry) {
	if !l.Together("username", "password_env") || l.Str("username") == "" || l.Str("password_env") == "" {
		return
	}
	r.Username, r.Password = l.User()
}

func (l *registryLogin) certificate(r *recipe.Registry) {
	if !l.Together("client_certificate", "client_key_file") {
		return
	}
	r.Certificate = l.Str("client_certificate")
	if r.Certificate != "" && !certificates(r.Certificate) {
		l.Fail("client_certificate", "invalid certificate", "The argument \"client_certificate\" holds no certificate in "+
			"PEM, or other content. Give file(\"client.pem\").")
		return
	}
	key, ok := l.OwnFile("client_key_file")
	if !ok || r.Certificate == "" {
		return
	}
	// The reason could quote the key.
	if _, err := tls.X509KeyPair([]byte(r.Certificate), []byte(key)); err != nil {
		l.Fail("client_key_file", "invalid key", "The file %s holds no key in PEM, without a password, that belongs to the "+
			"certificate of \"client_certificate\".", l.Str("client_key_file"))
	}
	r.Key = key
}

// oneLoginEach reports two users for one host, for versions of containerd that keep logins by the host and not by the
// registry whose mirror it is.
func oneLoginEach(list []recipe.Registry, at []*eval.Section, version string) {
	v, err := compat.LookupContainerd(version)
	if err != nil || v.HeaderForTokens {
		return
	}
	type login struct{ user, password string }
	seen := map[string]login{}
	for i, r := range list {
		if r.Username == "" {
			continue
		}
		own := login{r.Username, r.Password}
		for _, host := range r.LoginHosts() {
			if first, ok := seen[host]; ok && first != own {
				at[i].Fail("username", "two users for one registry", "Another block logs in at %s as somebody else, or with "+
					"another password, and containerd before 2.1 keeps one login for each host. Give both blocks the same user, or "+
					"use containerd 2.1 or newer.", host)
			}
			seen[host] = own
		}
	}
}
