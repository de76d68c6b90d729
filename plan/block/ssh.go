package block

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
)

// decodeSSH reads connection "ssh".
func decodeSSH(s *eval.Section) *SSH {
	ssh := decodeJumps(s)
	ssh.Host, ssh.Port, ssh.User = s.Str("host"), int(s.Int("port", 1, 65535, 0)), s.Str("user")
	ssh.HostKey, ssh.PasswordEnv = s.Str("host_key"), s.Str("password_env")
	ssh.Timeout = s.Duration("timeout", time.Second, 10*time.Minute, 0)
	withoutEffectSSH(s, ssh)
	if ssh.HostKey != "" && !validHostKey(ssh.HostKey) {
		s.Fail("host_key", "invalid host key", notHostKey, ssh.HostKey)
	}
	return ssh
}

// decodeJumps reads the jump hosts on the way to a machine, and what all servers on the way share.
func decodeJumps(s *eval.Section) *SSH {
	home := s.Scope.Files.Home
	ssh := &SSH{AcceptNew: s.Bool("accept_new"), PassphraseEnv: s.Str("passphrase_env"), Jump: s.Strs("jump"),
		JumpKeys: s.StrMap("jump_host_keys")}
	for _, f := range s.Strs("identity") {
		ssh.Identity = append(ssh.Identity, home(f))
	}
	for _, f := range s.Strs("known_hosts") {
		ssh.KnownHosts = append(ssh.KnownHosts, home(f))
	}
	for i, j := range ssh.Jump {
		if !jumpHost.MatchString(j) {
			s.FailAt(s.AtIndex("jump", i), "invalid jump host",
				"%q is not a machine to go through. Write HOST, USER@HOST or USER@HOST:PORT.", j)
		}
	}
	jumpKeys(s, ssh)
	return ssh
}

const notHostKey = "%q is not a host key. Write it as ssh-keyscan shows it, \"ssh-ed25519 AAAA...\", or its " +
	"fingerprint, \"SHA256:...\"."

// jumpKeys checks the pinned keys of jump hosts.
func jumpKeys(s *eval.Section, ssh *SSH) {
	for _, j := range slices.Sorted(maps.Keys(ssh.JumpKeys)) {
		at, key := s.AtKey("jump_host_keys", j), ssh.JumpKeys[j]
		switch {
		case !s.Has("jump") && s.Misspelt("jump"):
		case !slices.Contains(ssh.Jump, j):
			s.FailAt(at, "unknown jump host", "The list %q has no %q, so its key would have no effect. Write it as it stands "+
				"there.%s", "jump", j, eval.DidYouMean(j, ssh.Jump))
		case !validHostKey(key):
			s.FailAt(at, "invalid host key", notHostKey, key)
		}
	}
}

// decodeBecome reads how the user of connection "ssh" gets root's rights; nil = it has them.
func decodeBecome(conn *eval.Section, ctx *hcl.EvalContext) *Become {
	blocks := conn.Blocks.OfType("become")
	if len(blocks) == 0 {
		return nil
	}
	s := conn.Scope.Section(becomeSpec, blocks[0], ctx)
	conn.OK = conn.OK && s.OK
	b := &Become{Method: s.StrOr("method", "sudo"), PasswordEnv: s.Str("password_env")}
	methods := []string{"sudo", "doas"}
	switch {
	case !slices.Contains(methods, b.Method):
		s.Fail("method", "unknown value", "%q is not a value of %q. Use %s.%s", b.Method, "method", eval.OneOf(methods),
			eval.DidYouMean(b.Method, methods))
	case b.Method == "doas" && b.PasswordEnv != "":
		s.Fail("password_env", "argument without effect", "doas reads passwords from a terminal only, which a run has not. "+
			"Permit the user with nopass in doas.conf, and remove the argument.")
	}
	return b
}

var (
	jumpHost    = regexp.MustCompile(`^([^@\s:]+@)?([^@\s:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	fingerprint = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}=?$`)
)

// validHostKey reports whether a host key has one of its two forms.
func validHostKey(s string) bool {
	if fingerprint.MatchString(s) {
		return true
	}
	fields := strings.Fields(s)
	if len(fields) < 2 {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(fields[1])
	// RFC 4253, 6.6: the key begins with its own type as a string with its length before.
	return err == nil && len(raw) > 4+len(fields[0]) && string(raw[4:4+len(fields[0])]) == fields[0]
}

// withoutEffectSSH reports arguments that pinned host keys leave without effect. A jump host of the plan whose key is
// not pinned is verified by known_hosts and accept_new.
func withoutEffectSSH(s *eval.Section, ssh *SSH) {
	if !s.Has("host_key") || s.Misspelt("jump") || s.Has("jump") && len(ssh.Jump) == 0 || !pinned(ssh) {
		return
	}
	why := "there is no jump host"
	if s.Has("jump") {
		why = "the keys of all jump hosts are pinned"
	}
	for _, name := range verifying(s) {
		s.Fail(name, "arguments exclude each other", "A pinned host_key is the only one that is accepted, and %s, "+
			"so %s has no effect. Remove one of the two.", why, name)
	}
}

// pinned reports whether the keys of all jump hosts are.
func pinned(ssh *SSH) bool {
	return !slices.ContainsFunc(ssh.Jump, func(j string) bool { return ssh.JumpKeys[j] == "" })
}

// verifying are the arguments of a plan with which keys that are not pinned are verified.
func verifying(s *eval.Section) (names []string) {
	for _, name := range []string{"known_hosts", "accept_new"} {
		if s.Has(name) && (name != "accept_new" || s.Bool(name)) {
			names = append(names, name)
		}
	}
	return names
}
