package bundle

import (
	"os"
	"slices"
	"strings"

	"nodejoin/plan"
	"nodejoin/steps/collect"
)

// Secrets are the sensitive values that this run knows, by --var, the environment and
// the plan. They are removed from everything.
func Secrets(p *plan.Plan, vars map[string]string, c *plan.Compiled, env func(string) (string, bool)) []string {
	var out []string
	for name, value := range vars {
		if p.Sensitive(name) {
			out = append(out, value)
		}
	}
	const fromEnv = "NODEJOIN_VAR_"
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if variable, ok := strings.CutPrefix(name, fromEnv); ok && p.Sensitive(variable) {
			out = append(out, value)
		}
	}
	for _, n := range c.Nodes {
		out = append(out, collect.Secrets(n.Steps)...)
		if s := n.Connection.SSH; s != nil {
			out = append(out, loginSecrets(env, s.PasswordEnv, s.PassphraseEnv)...)
			if s.Become != nil {
				out = append(out, loginSecrets(env, s.Become.PasswordEnv)...)
			}
		}
	}
	for _, n := range c.Nodes {
		if w := n.Connection.WinRM; w != nil {
			out = append(out, loginSecrets(env, w.PasswordEnv)...)
			if w.Through != nil {
				out = append(out, loginSecrets(env, w.Through.PassphraseEnv)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// loginSecrets are the values of environment variables; a name may be "".
func loginSecrets(env func(string) (string, bool), names ...string) []string {
	var out []string
	for _, name := range names {
		if value, ok := env(name); ok && name != "" {
			out = append(out, value)
		}
	}
	return out
}
