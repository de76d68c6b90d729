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
	l.token(r)
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

// together reports whether two arguments are given, and an error where one of them is missing.
func (l *registryLogin) together(one, other string) bool {
	for _, n := range [][2]string{{one, other}, {other, one}} {
		if l.Has(n[0]) && !l.Has(n[1]) && !l.Misspelt(n[1]) {
			l.Fail(n[0], "missing argument", "The argument %q needs %q beside it.", n[0], n[1])
		}
	}
	return l.Has(one) && l.Has(other)
}

func (l *registryLogin) user(r *recipe.Registry) {
	if !l.together("username", "password_env") || l.Str("username") == "" || l.Str("password_env") == "" {
		return
	}
	r.Username, r.Password = l.User()
}

func (l *registryLogin) token(r *recipe.Registry) {
	if !l.Has("token_file") {
		return
	}
	for _, name := range []string{"username", "password_env"} {
		if l.Has(name) {
			l.Fail("token_file", "arguments exclude each other",
				"A registry takes a token or a user with a password: remove \"token_file\" or %q.", name)
			return
		}
	}
	text, ok := l.file("token_file")
	r.Token = strings.TrimSpace(text)
	if ok && (r.Token == "" || !eval.PlainText(r.Token) || strings.Contains(r.Token, " ")) {
		l.Fail("token_file", "invalid token", "The file %s holds no token: one word in one line.", l.Str("token_file"))
	}
}

func (l *registryLogin) certificate(r *recipe.Registry) {
	if !l.together("client_certificate", "client_key_file") {
		return
	}
	r.Certificate = l.Str("client_certificate")
	if r.Certificate != "" && !certificates(r.Certificate) {
		l.Fail("client_certificate", "invalid certificate", "The argument \"client_certificate\" holds no certificate in "+
			"PEM, or other content. Give file(\"client.pem\").")
		return
	}
	key, ok := l.file("client_key_file")
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

// file reads a file that an argument names.
func (l *registryLogin) file(name string) (text string, ok bool) {
	path := l.Str(name)
	if path == "" {
		return "", false
	}
	b, err := l.Scope.Files.ReadOwn(l.Scope.Files.Home(path))
	if err != nil {
		l.Fail(name, "unreadable file", "The file of %q cannot be read: %v.", name, err)
	}
	return string(b), err == nil
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
