package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"

	sshconfig "github.com/kevinburke/ssh_config"
)

// hop is one SSH server on the way, all settings resolved.
type hop struct {
	host       string
	port       int
	user       string
	explicit   bool // identity was asked for by the plan
	identity   []string
	agent      string // where the ssh-agent listens, see agentPath
	knownHosts []string
	pin        string // the only key that it may show; "" = one of knownHosts
	// pinAt says where a plan pins its key: "host_key", or `jump_host_keys["u@gate"]`; pinAs how to write it there.
	pinAt string
	pinAs func(key string) string
}

func (h hop) addr() string { return net.JoinHostPort(h.host, strconv.Itoa(h.port)) }
func (h hop) name() string { return h.user + "@" + h.addr() }

// hops resolves the way to the machine, outermost jump host first.
func (c SSHConfig) hops() ([]hop, error) {
	file, err := c.readConfig()
	if err != nil {
		return nil, err
	}
	if err := unsupported(file, c, c.Host, stop{last: true, pin: c.HostKey}); err != nil {
		return nil, err
	}
	last, err := c.hop(file, c.Host, c.User, c.Port)
	if err != nil {
		return nil, err
	}
	last.pin, last.pinAt = c.HostKey, "host_key"
	last.pinAs = func(key string) string { return fmt.Sprintf("host_key = %q", key) }
	jumps, unwritten := c.Jump, ""
	if len(jumps) == 0 {
		if v, _ := file.Get(c.Host, "ProxyJump"); v != "" && !strings.EqualFold(v, "none") {
			jumps = strings.Split(v, ",")
			unwritten = fmt.Sprintf(`jump = ["%s"] and `, strings.Join(jumps, `", "`))
		}
	}
	out, err := c.jumps(file, jumps, unwritten)
	return append(out, last), err
}

// jumps resolves jump hosts. unwritten is what the plan needs, too, to pin one of them.
func (c SSHConfig) jumps(file *sshconfig.Config, list []string, unwritten string) ([]hop, error) {
	var out []hop
	for _, j := range list {
		user, host, port, err := parseJump(j)
		if err != nil {
			return nil, err
		}
		if err := unsupported(file, c, host, stop{pin: c.JumpKeys[j]}); err != nil {
			return nil, err
		}
		h, err := c.hop(file, host, user, port)
		if err != nil {
			return nil, err
		}
		h.pin, h.pinAt = c.JumpKeys[j], fmt.Sprintf("jump_host_keys[%q]", j)
		h.pinAs = func(key string) string { return fmt.Sprintf("%sjump_host_keys = { %q = %q }", unwritten, j, key) }
		out = append(out, h)
	}
	return out, nil
}

// readConfig reads the user's file; a missing one is empty.
func (c SSHConfig) readConfig() (*sshconfig.Config, error) {
	path := c.ConfigFile
	if path == "" {
		path = expandHome("~/.ssh/config")
	}
	if path == "none" {
		return &sshconfig.Config{}, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && c.ConfigFile == "" {
		return &sshconfig.Config{}, nil
	}
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return nil, fmt.Errorf("%s is not a text file", path)
	}
	file, err := sshconfig.DecodeBytes(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// hop resolves one server; explicit values win over the file, the file over defaults.
func (c SSHConfig) hop(file *sshconfig.Config, alias, login string, port int) (hop, error) {
	get := func(key string) string { v, _ := file.Get(alias, key); return v }
	h := hop{host: alias, port: port, user: login, explicit: len(c.Identity) > 0}
	if v := get("HostName"); v != "" {
		h.host = strings.ReplaceAll(v, "%h", alias)
	}
	if v := get("Port"); h.port == 0 && v != "" {
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil {
			return h, fmt.Errorf("port %q of host %s in the SSH configuration: %w", v, alias, err)
		}
		h.port = int(n)
	}
	if h.port == 0 {
		h.port = 22
	}
	if h.user == "" {
		h.user = get("User")
	}
	if h.user == "" {
		u, err := user.Current()
		if err != nil {
			return h, fmt.Errorf("no user is set and the current one is not known: %w", err)
		}
		h.user = u.Username[strings.LastIndex(u.Username, `\`)+1:]
	}
	h.identity = expandAll(c.Identity)
	if !h.explicit {
		files, _ := file.GetAll(alias, "IdentityFile")
		h.identity = expandAll(files)
		if len(files) == 0 {
			h.identity = expandAll([]string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"})
		}
	}
	h.agent = agentPath(file, alias)
	h.knownHosts = expandAll(c.KnownHosts)
	if len(h.knownHosts) == 0 {
		h.knownHosts = expandAll(strings.Fields(get("UserKnownHostsFile")))
	}
	if len(h.knownHosts) == 0 {
		h.knownHosts = expandAll([]string{"~/.ssh/known_hosts", "~/.ssh/known_hosts2"})
		global := expandAll(strings.Fields(get("GlobalKnownHostsFile")))
		if len(global) == 0 {
			global = []string{"/etc/ssh/ssh_known_hosts"}
		}
		h.knownHosts = append(h.knownHosts, global...)
	}
	return h, nil
}

// parseJump reads "user@host:port"; user and port may be left out.
func parseJump(s string) (user, host string, port int, err error) {
	host = strings.TrimPrefix(strings.TrimSpace(s), "ssh://")
	if i := strings.LastIndex(host, "@"); i >= 0 {
		user, host = host[:i], host[i+1:]
	}
	if name, p, serr := net.SplitHostPort(host); serr == nil {
		n, perr := strconv.ParseUint(p, 10, 16)
		if perr != nil {
			return "", "", 0, fmt.Errorf("jump host %q: port: %w", s, perr)
		}
		host, port = name, int(n)
	}
	host = strings.Trim(host, "[]")
	if host == "" {
		return "", "", 0, fmt.Errorf("jump host %q has no name; write user@host:port", s)
	}
	return user, host, port, nil
}

func expandAll(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, expandHome(strings.Trim(p, `"`)))
	}
	return out
}
