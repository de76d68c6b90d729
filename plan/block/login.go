package block

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/steps"
)

// decodeLogins reads the login blocks.
func decodeLogins(sc *eval.Scope, blocks []*hcl.Block) (out []steps.Login) {
	for _, b := range blocks {
		s := sc.Section(Root("login"), b, sc.Ctx)
		l := steps.Login{Server: b.Labels[0]}
		if !registryHost.MatchString(l.Server) {
			s.FailAt(b.LabelRanges[0], "invalid server", "%q is not a host, or host:port, in lower case: mirror.example or "+
				"registry.example:5000. Write it as in the address of the mirror or artifact.", l.Server)
		}
		l.Username, l.Password = user(s)
		out = append(out, l)
	}
	return out
}

// user reads username and password_env, which a block has both.
func user(s *eval.Section) (name, password string) {
	name = s.Str("username")
	if strings.Contains(name, ":") || !plainText(name) {
		s.Fail("username", "invalid user name", "%q cannot be the user of a server: it has a colon or a control "+
			"character.", name)
	}
	env := s.Str("password_env")
	if env == "" {
		return name, ""
	}
	value, set, err := s.Scope.Getenv(env)
	switch {
	case err != nil:
		s.Fail("password_env", "password not known", "The password cannot be read: %s.", err)
	case !set || value == "":
		s.Fail("password_env", "password not known", "The environment variable %s is not set or empty, and it is to hold "+
			"the password of %q. Set it where nodejoin runs.", env, name)
	case !plainText(value):
		s.Fail("password_env", "invalid password", "The environment variable %s holds a line break or another control "+
			"character, which no password of a server has. Set it without one.", env)
	}
	return name, value
}
