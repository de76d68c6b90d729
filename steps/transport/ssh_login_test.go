package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gssh "github.com/gliderlabs/ssh"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// tryLogin connects and returns the ConnectError, or nil if the login succeeded.
func tryLogin(t *testing.T, c SSHConfig) *ConnectError {
	t.Helper()
	w, err := dialWay(t.Context(), c)
	if err == nil {
		w.close()
		return nil
	}
	var ce *ConnectError
	if !errors.As(err, &ce) {
		t.Fatalf("%v is not a ConnectError", err)
	}
	return ce
}

// wantError compares a ConnectError; its message and remedy must contain all texts.
func wantError(t *testing.T, ce *ConnectError, reason Reason, texts ...string) {
	t.Helper()
	if ce == nil || ce.Reason != reason {
		t.Fatalf("have %v, want reason %s", ce, reason)
	}
	for _, s := range texts {
		if !strings.Contains(ce.Error()+" "+ce.Remedy, s) {
			t.Errorf("%q (remedy %q) does not say %q", ce.Error(), ce.Remedy, s)
		}
	}
}

func authorized(k ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey())))
}

func TestHostKey(t *testing.T) {
	rsaHost := newSigner(t, rsaKey(t))
	ecHost := newSigner(t, ecdsaKey(t))
	other := newSigner(t, ed25519Key(t))
	m := newMachine(t, func(m *machine) {
		m.AddHostKey(rsaHost)
		m.AddHostKey(ecHost)
	})
	known := func(lines ...string) string {
		return writeText(t, filepath.Join(t.TempDir(), "known_hosts"), strings.Join(lines, "\n"))
	}
	line := func(k ssh.Signer) string { return knownhosts.Line([]string{m.addr}, k.PublicKey()) }
	fp := func(k ssh.Signer) string { return ssh.FingerprintSHA256(k.PublicKey()) }
	missing := filepath.Join(t.TempDir(), "sub", "known_hosts")
	files := new(SSHFiles)
	changed := known("# a comment", line(other))

	for _, tt := range []struct {
		name  string
		pin   string
		files string
		new   bool
		want  Reason // "" = logged in
		texts []string
	}{
		{name: "pinned line", pin: authorized(m.host)},
		{name: "pinned fingerprint", pin: fp(m.host)},
		{name: "pinned fingerprint of the RSA key", pin: fp(rsaHost)},
		{name: "pinned line of the ECDSA key", pin: authorized(ecHost)},
		{name: "pin wins over known_hosts", pin: fp(m.host), files: changed},
		{name: "other pin", pin: fp(other), want: ReasonHostKey, texts: []string{"the plan", fp(other), fp(m.host)}},
		{name: "other pinned line", pin: authorized(other), want: ReasonHostKey, texts: []string{"the plan"}},
		{name: "senseless pin", pin: "ssh-ed25519 nonsense", want: ReasonHostKey, texts: []string{"ssh-keyscan"}},
		{name: "known ed25519", files: known(line(m.host))},
		{name: "known RSA only", files: known(line(rsaHost))},
		{name: "known ECDSA only", files: known(line(ecHost))},
		{name: "changed", files: changed, want: ReasonHostKey, texts: []string{changed + ":2", fp(m.host), fp(other)}},
		{name: "changed, accept new", files: changed, new: true, want: ReasonHostKey},
		{name: "revoked", files: known("@revoked " + line(m.host)), want: ReasonHostKey, texts: []string{":1"}},
		{name: "unknown", files: known("other.example " + authorized(other)), want: ReasonUnknownHost,
			texts: []string{fp(m.host), "host_key = ", "accept_new"}},
		{name: "no file", files: missing, want: ReasonUnknownHost},
		{name: "unreadable file", files: known("garbage that is not a line"), want: ReasonKey},
		{name: "accept new", files: missing, new: true},
		{name: "accepted before", files: missing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := m.config(m.addr)
			c.HostKey, c.AcceptNew, c.KnownHosts, c.Files = tt.pin, tt.new, []string{tt.files}, files
			ce := tryLogin(t, c)
			if tt.want == "" && ce != nil {
				t.Fatal(ce)
			}
			if tt.want != "" {
				wantError(t, ce, tt.want, tt.texts...)
			}
		})
	}
	if b, err := os.ReadFile(changed); err != nil || strings.Count(string(b), "\n") != 1 {
		t.Errorf("known_hosts with a changed key was written: %q, %v", b, err)
	}
}

func TestHostKeyOfAKindThatIsGone(t *testing.T) {
	m := newMachine(t)
	c := m.config(m.addr)
	gone := newSigner(t, rsaKey(t))
	c.HostKey, c.KnownHosts = "",
		[]string{writeText(t, filepath.Join(t.TempDir(), "k"), knownhosts.Line([]string{m.addr}, gone.PublicKey()))}
	wantError(t, tryLogin(t, c), ReasonHostKey, c.KnownHosts[0])
}

const secret = "correct horse battery"

func TestLogin(t *testing.T) {
	key := ed25519Key(t)
	stranger := ed25519Key(t)
	m := newMachine(t, func(m *machine) {
		m.user = newSigner(t, key)
		m.PasswordHandler = func(_ gssh.Context, p string) bool { return p == secret }
	})
	dir := t.TempDir()
	plain := writeKey(t, filepath.Join(dir, "plain"), key, "")
	locked := writeKey(t, filepath.Join(dir, "locked"), key, secret)
	wrong := writeKey(t, filepath.Join(dir, "wrong"), stranger, "")
	public := writeText(t, filepath.Join(dir, "id.pub"), authorized(m.user))
	t.Setenv("TEST_SECRET", secret)
	t.Setenv("TEST_WRONG", "hunter2hunter2")

	for _, tt := range []struct {
		name       string
		identity   []string
		passphrase string
		password   string
		want       Reason
		texts      []string
	}{
		{name: "key", identity: []string{plain}},
		{name: "second key", identity: []string{wrong, plain}},
		{name: "encrypted key", identity: []string{locked}, passphrase: "TEST_SECRET"},
		{name: "password", password: "TEST_SECRET"},
		{name: "refused key, then password", identity: []string{wrong}, password: "TEST_SECRET"},
		{name: "wrong passphrase", identity: []string{locked}, passphrase: "TEST_WRONG", want: ReasonKey,
			texts: []string{locked, "TEST_WRONG"}},
		{name: "no passphrase", identity: []string{locked}, want: ReasonKey, texts: []string{locked, "passphrase_env"}},
		{name: "passphrase not set", identity: []string{locked}, passphrase: "TEST_UNSET", want: ReasonKey,
			texts: []string{"TEST_UNSET"}},
		{name: "public key", identity: []string{public}, want: ReasonKey, texts: []string{public}},
		{name: "missing key", identity: []string{filepath.Join(dir, "none")}, want: ReasonKey, texts: []string{"none"}},
		{name: "password not set", password: "TEST_UNSET", want: ReasonKey, texts: []string{"TEST_UNSET"}},
		{name: "refused key", identity: []string{wrong}, want: ReasonAuth, texts: []string{wrong, "admin", "publickey",
			"password"}},
		{name: "refused password", password: "TEST_WRONG", want: ReasonAuth, texts: []string{"$TEST_WRONG"}},
		{name: "nothing to offer", want: ReasonAuth, texts: []string{"nothing could be offered"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			c := m.config(m.addr)
			c.Identity, c.PassphraseEnv, c.PasswordEnv = tt.identity, tt.passphrase, tt.password
			ce := tryLogin(t, c)
			if tt.want == "" {
				if ce != nil {
					t.Fatal(ce)
				}
				return
			}
			wantError(t, ce, tt.want, tt.texts...)
			if all := fmt.Sprintf("%v %+v %v", ce, *ce, ce.Err); strings.Contains(all, secret) ||
				strings.Contains(all, "hunter2") {
				t.Errorf("the error contains a secret: %s", all)
			}
		})
	}
}

func TestKeyboardInteractive(t *testing.T) {
	m := newMachine(t, func(m *machine) {
		m.PublicKeyHandler = nil
		m.KeyboardInteractiveHandler = func(_ gssh.Context, ask ssh.KeyboardInteractiveChallenge) bool {
			a, err := ask("", "", []string{"Password: "}, []bool{false})
			return err == nil && len(a) == 1 && a[0] == secret
		}
	})
	t.Setenv("TEST_SECRET", secret)
	c := m.config(m.addr)
	c.Identity, c.PasswordEnv = nil, "TEST_SECRET"
	if ce := tryLogin(t, c); ce != nil {
		t.Fatal(ce)
	}
}

func TestSSHAgent(t *testing.T) {
	key := ed25519Key(t)
	m := newMachine(t, func(m *machine) { m.user = newSigner(t, key) })
	ring := agent.NewKeyring()
	for _, k := range []any{ed25519Key(t), key} {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(ring, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	t.Setenv("SSH_AUTH_SOCK", sock)
	t.Setenv("HOME", t.TempDir())
	c := m.config(m.addr)
	c.Identity = nil
	if ce := tryLogin(t, c); ce != nil {
		t.Fatal(ce)
	}
	// An encrypted key file needs no passphrase if the ssh-agent holds its key.
	c.Identity = []string{writeKey(t, filepath.Join(t.TempDir(), "locked"), key, secret)}
	if ce := tryLogin(t, c); ce != nil {
		t.Fatal(ce)
	}
}

func TestUnreachable(t *testing.T) {
	m := newMachine(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := m.config(silent.Addr().String())
	c.Timeout = 100 * time.Millisecond
	wantError(t, tryLogin(t, c), ReasonUnreachable, "no answer within 100ms")

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	wantError(t, tryLogin(t, m.config(closed.Addr().String())), ReasonUnreachable, "refused")

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := DialSSH(ctx, m.config(m.addr), selfAgent); !errors.Is(err, why) {
		t.Errorf("cancelled: %v, want the cause", err)
	}
}

func TestSSHConfigFile(t *testing.T) {
	m := newMachine(t)
	host, port, _ := net.SplitHostPort(m.addr)
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, filepath.Join(home, ".ssh", "config"), fmt.Sprintf(
		"Host win-*\n  HostName %s\n  Port %s\n  User Administrator\n  IdentityFile %s\n  UserKnownHostsFile "+
			"~/hosts\nHost far\n  ProxyJump jim@win-1,other:2200\n", host, port, m.identity))
	writeText(t, filepath.Join(home, "hosts"), knownhosts.Line([]string{m.addr}, m.host.PublicKey()))
	c := SSHConfig{Host: "win-7"}
	if ce := tryLogin(t, c); ce != nil {
		t.Fatal(ce)
	}
	c.User, c.Port = "eve", 7
	hops, err := c.hops()
	if err != nil || len(hops) != 1 || hops[0].name() != "eve@"+net.JoinHostPort(host, "7") {
		t.Errorf("explicit values: %+v, %v", hops, err)
	}
	hops, err = SSHConfig{Host: "far", User: "u"}.hops()
	n, _ := strconv.Atoi(port)
	if err != nil || len(hops) != 3 || hops[0].user != "jim" || hops[0].port != n || hops[1].addr() != "other:2200" ||
		hops[2].name() != "u@far:22" {
		t.Errorf("ProxyJump: %+v, %v", hops, err)
	}
}

// TestSSHConfigOptions: an option that changes the route or the trust, and that nodejoin does not follow, is refused
// by name. An option without effect, or one that the plan overrides, is accepted.
func TestSSHConfigOptions(t *testing.T) {
	plain := SSHConfig{Host: "win", User: "u"}
	with := func(set func(c *SSHConfig)) SSHConfig {
		c := plain
		set(&c)
		return c
	}
	for _, c := range []struct {
		line    string
		config  SSHConfig
		refused string
	}{
		{"ProxyCommand nc %h %p", plain, "it has ProxyCommand for win, which nodejoin does not follow"},
		{"ProxyCommand none", plain, ""},
		{"ProxyCommand nc %h %p", with(func(c *SSHConfig) { c.Jump = []string{"u@other"} }), ""},
		{"CanonicalizeHostname always", plain, "CanonicalizeHostname"},
		{"HostKeyAlias old", plain, "HostKeyAlias"},
		{"HostKeyAlias old", with(func(c *SSHConfig) { c.HostKey = "SHA256:x" }), ""},
		{"KnownHostsCommand /bin/keys", plain, "KnownHostsCommand"},
		{"ProxyJump gate\nHost gate\n  HostKeyAlias old", plain, "HostKeyAlias for gate"},
		{"User v\nHost gate\n  HostKeyAlias old", with(func(c *SSHConfig) {
			c.Jump, c.JumpKeys = []string{"u@gate"}, map[string]string{"u@gate": "SHA256:x"}
		}), ""},
		{"KnownHostsCommand /bin/keys", with(func(c *SSHConfig) { c.KnownHosts = []string{"k"} }), ""},
		{"RevokedHostKeys /etc/revoked", plain, "RevokedHostKeys"},
		{"CertificateFile ~/.ssh/id-cert.pub", plain, "CertificateFile"},
		{"CertificateFile ~/.ssh/id-cert.pub", with(func(c *SSHConfig) { c.Identity = []string{"k"} }), ""},
		{"PKCS11Provider /usr/lib/p.so", plain, "PKCS11Provider"},
		{"ServerAliveInterval 5", plain, ""},
		{"ProxyJump gate\nHost gate\n  ProxyCommand nc %h %p", plain, "ProxyCommand for gate"},
		{"User \x00", plain, "is not a text file"},
	} {
		c.config.ConfigFile = filepath.Join(t.TempDir(), "config")
		writeText(t, c.config.ConfigFile, "Host win\n  "+c.line+"\n")
		_, err := c.config.hops()
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%q: %v, want %q", c.line, err, c.refused)
		}
	}
}

// TestIdentityAgent: which ssh-agent nodejoin uses.
func TestIdentityAgent(t *testing.T) {
	t.Setenv("OTHER_SOCK", "/run/other")
	for line, want := range map[string]string{
		"User u": "", "IdentityAgent SSH_AUTH_SOCK": "", "IdentityAgent none": noAgent, "IdentityAgent $UNSET": noAgent,
		"IdentityAgent $OTHER_SOCK": "/run/other", "IdentityAgent /run/mine": "/run/mine",
		"GlobalKnownHostsFile /etc/hosts.keys": "",
	} {
		c := SSHConfig{Host: "win", User: "u", ConfigFile: filepath.Join(t.TempDir(), "config")}
		writeText(t, c.ConfigFile, "Host win\n  "+line+"\n")
		hops, err := c.hops()
		if err != nil || hops[0].agent != want {
			t.Errorf("%q: %+v, %v, want %q", line, hops, err, want)
		}
		if strings.HasPrefix(line, "Global") && !slices.Contains(hops[0].knownHosts, "/etc/hosts.keys") {
			t.Errorf("%q: %q", line, hops[0].knownHosts)
		}
	}
}

func TestParseJump(t *testing.T) {
	for in, want := range map[string]string{
		"host": "|host|0", "u@host:22": "u|host|22", "a@b@host": "a@b|host|0", "[fe80::1]:22": "|fe80::1|22",
		"[fe80::1]": "|fe80::1|0",
		"":          "error", "u@": "error", "host:ssh": "error", "host:70000": "error",
	} {
		u, h, p, err := parseJump(in)
		have := fmt.Sprintf("%s|%s|%d", u, h, p)
		if err != nil {
			have = "error"
		}
		if have != want {
			t.Errorf("%q: have %s, want %s", in, have, want)
		}
	}
}

func TestDataDir(t *testing.T) {
	for _, tt := range []struct {
		os, dir string
		line    string // "" = refused
		adapter string
	}{
		{"windows", `C:\ProgramData\nodejoin`,
			`.nodejoin\agent\nodejoin-agent-0123456789abcdef.exe serve 433a5c50726f6772616d446174615c6e6f64656a6f696e`, ""},
		{"windows", `C:\Program Files\a&b`,
			`.nodejoin\agent\nodejoin-agent-0123456789abcdef.exe serve 433a5c50726f6772616d2046696c65735c612662`, ""},
		{"windows", `data`, "", ""},
		{"linux", "/it's", `.nodejoin/agent/nodejoin-agent-0123456789abcdef serve 2f69742773`, ""},
		{"linux", "/d", `.nodejoin/agent/nodejoin-agent-0123456789abcdef serve 2f640a657468302031`, "eth0 1"},
		{"linux", "data", "", ""},
		{"plan9", "/data", "", ""},
	} {
		c := Target{OS: tt.os, DataDir: tt.dir, Interface: tt.adapter}
		have := ""
		if checkDataDir(c, "host") == nil {
			have = newAgentFile(c, "", "0123456789abcdef0123").serve()
		}
		if have != tt.line {
			t.Errorf("%s %s: have %q, want %q", tt.os, tt.dir, have, tt.line)
		}
	}
	if have := sftpPath("windows", `C:\x\y`); have != "/C:/x/y" {
		t.Errorf("SFTP path %q", have)
	}
}
