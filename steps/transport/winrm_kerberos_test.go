package transport

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps/transport/winrmtest"
)

// TestWinRMKerberos: the user logs in with a password or the tickets of kinit, to the KDC of Debian. Whatever stands
// against that is an error that says what to check, without the password. The certificate is pinned, or its CA is.
func TestWinRMKerberos(t *testing.T) {
	m := &winrmMachine{home: t.TempDir(), drive: t.TempDir()}
	m.Server = winrmtest.New(t, "Administrator", winrmPassword, winrmtest.Cmd(m.home, m.drive), "localhost")
	t.Setenv("TEST_WINRM", winrmPassword)
	m.place(t)
	kdc := winrmtest.NewKDC(t, "Administrator", winrmPassword)
	m.Keytab, m.Strict = kdc.Keytab, true
	t.Setenv("KRB5_CONFIG", kdc.Conf)
	tickets := kdc.Kinit(t, "Administrator", winrmPassword)
	ca := writeText(t, filepath.Join(t.TempDir(), "ca.pem"), string(m.CA))
	foreign := writeText(t, filepath.Join(t.TempDir(), "ca.pem"), string(newWinRM(t).CA))
	for name, tt := range map[string]struct {
		change func(*WinRMConfig)
		reason Reason // "" = it is accepted
		says   string
	}{
		"password":  {func(*WinRMConfig) {}, "", ""},
		"realm":     {func(c *WinRMConfig) { c.User = "Administrator@TEST.EXAMPLE" }, "", ""},
		"tickets":   {func(c *WinRMConfig) { c.PasswordEnv = "" }, "", ""},
		"jump host": {func(c *WinRMConfig) { c.Through, c.PasswordEnv = newChain(t).through(), "" }, "", ""},
		"CA":        {func(c *WinRMConfig) { c.CertificateSHA256, c.CAFile = "", ca }, "", ""},
		"other CA": {func(c *WinRMConfig) { c.CertificateSHA256, c.CAFile = "", foreign }, ReasonHostKey,
			"its SHA-256 is " + m.SHA256},
		"unknown CA": {func(c *WinRMConfig) { c.CertificateSHA256 = "" }, ReasonHostKey, "its SHA-256 is " + m.SHA256},
		"wrong password": {func(c *WinRMConfig) { c.PasswordEnv = "TEST_WRONG" }, ReasonAuth,
			"KRBMessage_Handling_Error"},
		"unknown user": {func(c *WinRMConfig) { c.User = "guest" }, ReasonAuth, "KDC_ERR_C_PRINCIPAL_UNKNOWN"},
		"other realm":  {func(c *WinRMConfig) { c.User = "Administrator@NO.EXAMPLE" }, ReasonAuth, "NO.EXAMPLE"},
		"domain user":  {func(c *WinRMConfig) { c.User = `TEST\Administrator` }, ReasonAuth, "write user@REALM"},
		"other's tickets": {func(c *WinRMConfig) { c.User, c.PasswordEnv = "guest", "" }, ReasonAuth,
			"tickets of Administrator@TEST.EXAMPLE, not of guest@TEST.EXAMPLE"},
		"no service": {func(c *WinRMConfig) { c.Host = "127.0.0.1" }, ReasonAuth, "KDC_ERR_S_PRINCIPAL_UNKNOWN"},
		"no tickets": {func(c *WinRMConfig) {
			c.PasswordEnv = ""
			t.Setenv("KRB5CCNAME", tickets+".none")
		}, ReasonAuth, "no such file"},
		"tickets elsewhere": {func(c *WinRMConfig) {
			c.PasswordEnv = ""
			t.Setenv("KRB5CCNAME", "KEYRING:persistent:0")
		}, ReasonAuth, "nodejoin reads files only"},
		"not tickets": {func(c *WinRMConfig) {
			c.PasswordEnv = ""
			t.Setenv("KRB5CCNAME", "FILE:"+writeText(t, filepath.Join(t.TempDir(), "cc"),
				"\x05\x04\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff"))
		}, ReasonAuth, "does not give what Kerberos prescribes"},
		"no configuration": {func(*WinRMConfig) { t.Setenv("KRB5_CONFIG", kdc.Conf+".none") }, ReasonAuth, "krb5.conf.none"},
		"empty password":   {func(c *WinRMConfig) { c.PasswordEnv = "TEST_NONE" }, ReasonAuth, "TEST_NONE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TEST_WRONG", "another")
			t.Setenv("KRB5_CONFIG", kdc.Conf)
			t.Setenv("KRB5CCNAME", "FILE:"+tickets)
			c := m.config(m.Addr)
			c.Host, c.Kerberos = "localhost", true
			tt.change(&c)
			m.wantLogin(t, c, tt.reason, tt.says)
		})
	}
	m.Keytab = ""
	t.Setenv("KRB5CCNAME", "FILE:"+tickets)
	c := m.config(m.Addr)
	c.Host, c.Kerberos, c.PasswordEnv = "localhost", true, ""
	conn, err := DialWinRM(t.Context(), c, selfAgent)
	if err == nil {
		_ = conn.Close()
	}
	if ce := (*ConnectError)(nil); !errors.As(err, &ce) || ce.Reason != ReasonAuth {
		t.Errorf("a server without Kerberos: %v, want that the login is refused", err)
	}
	if b, err := os.ReadFile(tickets); err != nil || len(b) == 0 {
		t.Errorf("the tickets of kinit are gone: %v", err)
	}
}

// TestWinRMKerberosSealed: over HTTP the agent works by Kerberos, too, and nothing of what is asked and answered can
// be read on the way, or changed.
func TestWinRMKerberosSealed(t *testing.T) {
	m := newHTTP(t)
	kdc := winrmtest.NewKDC(t, "Administrator", winrmPassword)
	m.Keytab = kdc.Keytab
	t.Setenv("KRB5_CONFIG", kdc.Conf)
	t.Setenv("KRB5CCNAME", "FILE:"+kdc.Kinit(t, "Administrator", winrmPassword))
	config := func(p *tap) WinRMConfig {
		c := m.config(p.addr)
		c.Host, c.HTTP, c.Kerberos, c.PasswordEnv = "localhost", true, true, ""
		return c
	}
	p := newTap(t, m.Addr, nil)
	wantSealed(t, m, p, config(p))
	wantUnaltered(t, m.Addr, config)
	answer := "Negotiate "
	wantRefusedOver(t, config(newTap(t, m.Addr, func(b []byte) { // it proves nothing
		if i := strings.Index(string(b), answer); i >= 0 && len(b) > i+200 {
			copy(b[i+len(answer)+100:], "AAAAAAAA")
		}
	})), ReasonAuth, "Kerberos")
}
