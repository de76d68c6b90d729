package transport

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// SSHConfig says how to reach a machine over SSH. What is not set comes from the
// user's ~/.ssh/config, then from the defaults of OpenSSH.
type SSHConfig struct {
	Target

	Host       string   // name, address or an alias of ~/.ssh/config
	Port       int      // 0 = ~/.ssh/config, then 22
	User       string   // "" = ~/.ssh/config, then the current user
	Identity   []string // key files, and no others; empty = ~/.ssh/config, the ssh-agent, the default names
	KnownHosts []string // files; empty = ~/.ssh/config, ~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts
	// HostKey pins the machine's key, as an authorized_keys line or
	// "SHA256:fingerprint"; known_hosts files do not count then. JumpKeys pins those of jump hosts.
	HostKey   string
	AcceptNew bool // note the key of an unknown host in the first known_hosts file
	// PasswordEnv and PassphraseEnv name environment variables with the password
	// of the login and the passphrase of encrypted key files.
	PasswordEnv   string
	PassphraseEnv string
	Jump          []string          // "user@host:port", outermost first; empty = ProxyJump of ~/.ssh/config
	JumpKeys      map[string]string // pinned keys of jump hosts by their element of Jump, in the form of HostKey
	Timeout       time.Duration     // of connecting, in all; 0 = 30 s

	// Become says how the user gets root's rights on Linux; nil = it has them.
	Become *Become

	// ConfigFile replaces ~/.ssh/config; "none" reads no file.
	ConfigFile string
	// Files are those that other connections have read, too; nil = this one reads for itself.
	Files *SSHFiles
}

// expandHome fills a leading "~/" or "%d/"; without a known home it stays.
func expandHome(p string) string {
	rest, ok := strings.CutPrefix(p, "~/")
	if !ok {
		rest, ok = strings.CutPrefix(p, "%d/")
	}
	if ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return p
}
