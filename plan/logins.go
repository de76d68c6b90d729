package plan

import (
	"nodejoin/plan/block"
	"nodejoin/plan/names"
	"nodejoin/steps"
)

// logins are those of the login blocks.
func (c *compiler) logins() (out []steps.Login) {
	for _, b := range c.Written["login"] {
		s := c.Section(block.Root("login"), b, c.Ctx)
		l := steps.Login{Server: b.Labels[0]}
		if !names.IsRegistryHost(l.Server) {
			s.FailAt(b.LabelRanges[0], "invalid server", "%q is not a host, or host:port, in lower case: mirror.example or "+
				"registry.example:5000. Write it as in the address of the mirror or artifact.", l.Server)
		}
		switch {
		case s.Has("token_file"):
			l.Token = s.Token()
		case !s.Has("username") && !s.Has("password_env") && !s.Misspelt("username") && !s.Misspelt("password_env") &&
			!s.Misspelt("token_file"):
			s.FailAt(b.DefRange, "missing argument", "There is neither a user nor a token: give \"username\" and "+
				"\"password_env\", or \"token_file\".")
		case s.Together("username", "password_env"):
			l.Username, l.Password = s.User()
		}
		out = append(out, l)
	}
	return out
}
