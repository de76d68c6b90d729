package transport

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	sshconfig "github.com/kevinburke/ssh_config"
)

// An option of ~/.ssh/config (ssh_config(5)) that changes the way to a machine or what is trusted there, and that
// nodejoin does not follow, must not be ignored in silence: the connection would go another way, or trust another key,
// than the user's ssh does.
type refusedOption struct {
	name string
	off  []string // values with which it does nothing
	// instead says how to write it in the plan.
	instead string
	// matters reports whether it would count for this connection; nil = it always does.
	matters func(c SSHConfig, s stop) bool
}

// stop is a server on the way, as far as options count there.
type stop struct {
	last bool   // it is the machine itself, not a jump host
	pin  string // its pinned key; "" = none
}

var refusedOptions = []refusedOption{
	{"ProxyCommand", []string{"none"}, "name the machine in between with jump",
		func(c SSHConfig, s stop) bool { return !s.last || len(c.Jump) == 0 }},
	{"ProxyUseFdpass", []string{"no"}, "name the machine in between with jump", nil},
	{"CanonicalizeHostname", []string{"no", "none"}, "give the whole name as host", nil},
	{"HostKeyAlias", nil, "pin the key with host_key, or jump_host_keys",
		func(_ SSHConfig, s stop) bool { return s.pin == "" }},
	{"KnownHostsCommand", []string{"none"}, "write its output to a file and name that with known_hosts, or pin the key " +
		"with host_key, or jump_host_keys", func(c SSHConfig, s stop) bool { return s.pin == "" && len(c.KnownHosts) == 0 }},
	{"VerifyHostKeyDNS", []string{"no"}, "pin the key with host_key, or jump_host_keys",
		func(_ SSHConfig, s stop) bool { return s.pin == "" }},
	{"RevokedHostKeys", []string{"none"}, "mark the keys @revoked in a known_hosts file",
		func(_ SSHConfig, s stop) bool { return s.pin == "" }},
	{"CertificateFile", nil, "give a key without a certificate with identity",
		func(c SSHConfig, _ stop) bool { return len(c.Identity) == 0 }},
	{"PKCS11Provider", []string{"none"}, "load the key into an ssh-agent",
		func(c SSHConfig, _ stop) bool { return len(c.Identity) == 0 }},
}

// unsupported is an error for the first option that the file has for this server and that nodejoin does not follow.
func unsupported(file *sshconfig.Config, c SSHConfig, alias string, s stop) error {
	for _, o := range refusedOptions {
		v, err := file.Get(alias, o.name)
		if err != nil || v == "" || o.matters != nil && !o.matters(c, s) {
			continue
		}
		if !containsFold(o.off, v) {
			return fmt.Errorf("it has %s for %s, which nodejoin does not follow: in the plan, %s", o.name, alias, o.instead)
		}
	}
	return nil
}

func containsFold(list []string, v string) bool {
	for _, s := range list {
		if strings.EqualFold(s, v) {
			return true
		}
	}
	return false
}

// noAgent is the value of IdentityAgent with which no ssh-agent is asked.
const noAgent = "none"

// agentPath is where the ssh-agent listens, by the option IdentityAgent: a path, noAgent, or "" for the usual one.
func agentPath(file *sshconfig.Config, alias string) string {
	v, _ := file.Get(alias, "IdentityAgent")
	v = strings.Trim(v, `"`)
	switch {
	case strings.EqualFold(v, noAgent):
		return noAgent
	case v == "SSH_AUTH_SOCK":
		return ""
	case strings.HasPrefix(v, "$"):
		return cmp.Or(os.Getenv(strings.Trim(v[1:], "{}")), noAgent)
	case v == "":
		return ""
	}
	return expandHome(v)
}
