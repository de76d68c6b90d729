package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodejoin/steps/transport/wire"
)

// SSHConfig says how to reach a machine over SSH. What is not set comes from the
// user's ~/.ssh/config, then from the defaults of OpenSSH.
type SSHConfig struct {
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

	OS      string // of the machine: "windows" or "linux"
	Arch    string // "amd64" or "arm64"; "" = amd64
	DataDir string // nodejoin's folder there; "" = DefaultDataDir(OS)
	// Interface is the adapter whose address is the machine's; "" = that of the default route.
	Interface string
	// Become says how the user gets root's rights on Linux; nil = it has them.
	Become *Become

	// ConfigFile replaces ~/.ssh/config; "none" reads no file.
	ConfigFile string
	// KeepAlive is the time between two signs of life; a machine that misses two counts as gone. 0 = 10 s.
	KeepAlive time.Duration
	// Bounds replaces the bounds of calls to the machine; nil = as they are.
	Bounds func(method string, b wire.Bound) wire.Bound
	// Notify hears of phases that take long: "pushing_agent". May be nil.
	Notify func(state, detail string)
}

// DefaultDataDir is nodejoin's folder on a machine.
func DefaultDataDir(os string) string {
	if os == "windows" {
		return `C:\ProgramData\nodejoin`
	}
	return "/var/lib/nodejoin"
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

// boundOf is the bound of a call to the machine; c may shorten it.
func (c SSHConfig) boundOf(method string, b wire.Bound) wire.Bound {
	if c.Bounds != nil {
		return c.Bounds(method, b)
	}
	return b
}

// checkDataDir refuses what cannot be a folder of the machine.
func checkDataDir(c SSHConfig) error {
	if c.OS != "windows" && c.OS != "linux" {
		return &ConnectError{Reason: ReasonAgent, Host: c.Host, Summary: "unknown operating system",
			Detail: fmt.Sprintf("%q is neither windows nor linux", c.OS)}
	}
	if strings.ContainsAny(c.DataDir, "\x00\n\r") || !absolute(c.OS, c.DataDir) {
		return &ConnectError{Reason: ReasonAgent, Host: c.Host, Summary: "unusable data folder",
			Detail: fmt.Sprintf("%q is not an absolute path on %s", c.DataDir, c.OS), Remedy: "use " + DefaultDataDir(c.OS)}
	}
	return nil
}

func absolute(os, p string) bool {
	if os == "windows" {
		return len(p) > 3 && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
	}
	return strings.HasPrefix(p, "/")
}
