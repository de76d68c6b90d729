package plan

import (
	"nodejoin/plan/block"
	"nodejoin/plan/names"
	"nodejoin/plan/trust"
	"nodejoin/steps"
)

// logins are those of the login blocks.
func (c *compiler) logins() (out []steps.Login) {
	for _, b := range c.Written["login"] {
		s := c.Section(block.Root("login"), b, c.Ctx)
		l := trust.Login(s)
		l.Server = b.Labels[0]
		if !names.IsRegistryHost(l.Server) {
			s.FailAt(b.LabelRanges[0], "invalid server", "%q is not a host, or host:port, in lower case: mirror.example or "+
				"registry.example:5000. Write it as in the address of the mirror or artifact.", l.Server)
		}
		out = append(out, l)
	}
	return out
}
