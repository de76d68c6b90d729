package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"nodejoin/steps/transport/kerberos"
	"nodejoin/steps/transport/wsman"
)

// WinRMConfig says how to reach a Windows machine over WinRM: HTTPS with NTLM or Kerberos, or
// HTTP sealed by one of them.
type WinRMConfig struct {
	Target

	Host string // name or address, for which the certificate is
	Port int    // 0 = 5986
	User string // "user", `DOMAIN\user` or "user@domain"
	// PasswordEnv names the environment variable with the password; with Kerberos "" = the tickets of kinit.
	PasswordEnv string
	Kerberos    bool // instead of NTLM
	HTTP        bool // without TLS: the login seals the messages
	// CertificateSHA256 pins the machine's certificate, lower-case hex; CAFile names the CAs that sign it. Both "" =
	// the CAs of the controller's system.
	CertificateSHA256 string
	CAFile            string
	Timeout           time.Duration // of connecting, in all; 0 = 30 s
	// Through has jump hosts, and how to log in there: its Jump, JumpKeys, Identity, KnownHosts, AcceptNew,
	// PassphraseEnv and ConfigFile count. nil = the machine is connected to directly.
	Through *SSHConfig
}

// DefaultWinRMPort is where WinRM listens for HTTPS.
const DefaultWinRMPort = 5986

// client is what the client of WS-Management needs.
func (c WinRMConfig) client(name, addr string) (w wsman.Config, err error) {
	w = wsman.Config{Addr: addr, User: c.User, Password: os.Getenv(c.PasswordEnv), HTTP: c.HTTP, Pin: c.CertificateSHA256}
	if w.Password == "" && (!c.Kerberos || c.PasswordEnv != "") {
		return w, &ConnectError{Reason: ReasonAuth, Host: name, Summary: "no password",
			Detail: "the environment variable " + c.PasswordEnv + " is empty or not set",
			Remedy: "set it to the password of " + c.User}
	}
	if c.CAFile != "" {
		if w.CAs, err = c.authorities(name); err != nil {
			return w, err
		}
	}
	if !c.Kerberos {
		return w, nil
	}
	k, err := kerberos.New(c.User, w.Password, c.Host)
	if err != nil {
		return w, &ConnectError{Reason: ReasonAuth, Host: name, Summary: "Kerberos cannot be used",
			Detail: err.Error(), Err: err, Remedy: "check user, krb5.conf of the controller, and its tickets with klist; " +
				"or name the variable with the password in password_env"}
	}
	w.Kerberos = k
	return w, nil
}

// authorities are the CAs that sign the machine's certificate.
func (c WinRMConfig) authorities(name string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	text, err := os.ReadFile(c.CAFile)
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s has no certificate in PEM form", c.CAFile)
	}
	if err != nil {
		return nil, &ConnectError{Reason: ReasonKey, Host: name, Summary: "the CA certificates cannot be read",
			Detail: err.Error(), Err: err, Remedy: "name a file of certificates in PEM form with ca_file"}
	}
	return pool, nil
}

// refusedWinRM says why there is no shell.
func refusedWinRM(c WinRMConfig, name string, err error) error {
	e := &ConnectError{Reason: ReasonUnreachable, Host: name, Summary: "no connection", Detail: err.Error(), Err: err,
		Remedy: "check the address, the firewall, and that the machine's WinRM listens for HTTPS: " +
			"winrm enumerate winrm/config/listener"}
	if c.HTTP {
		e.Remedy = "check the address, the firewall, and that the machine's WinRM listens for HTTP and takes Negotiate: " +
			"winrm enumerate winrm/config/listener; or use HTTPS"
	}
	var bad *wsman.CertificateError
	var fault *wsman.FaultError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &bad):
		e.Reason, e.Summary = ReasonHostKey, "the certificate is not accepted"
		e.Detail = fmt.Sprintf("%v; its SHA-256 is %s", bad, bad.SHA256)
		e.Remedy = "if this is the machine's own certificate, pin it with certificate_sha256, or name its CA with " +
			"ca_file; if it is not, something answers in place of the machine"
	case errors.As(err, &plain), errors.Is(err, http.ErrSchemeMismatch):
		e.Summary, e.Detail = "the machine answers without TLS", fmt.Sprintf("port %d does not speak HTTPS", c.Port)
		e.Remedy = fmt.Sprintf("give WinRM a listener for HTTPS with a certificate, by default on port %d; WinRM over "+
			"HTTP is on port 5985", DefaultWinRMPort)
	case errors.Is(err, wsman.ErrRefused) && c.Kerberos:
		e.Reason, e.Summary = ReasonAuth, "login refused"
		e.Remedy = "check the user and the password or the tickets (klist), that the realm has the service HTTP/" + c.Host +
			", that the clocks agree, and that WinRM allows Negotiate: winrm get winrm/config/service/auth"
	case errors.Is(err, wsman.ErrRefused):
		e.Reason, e.Summary = ReasonAuth, "login refused"
		e.Remedy = "check the user and the password in " + c.PasswordEnv + ", and that WinRM allows Negotiate: " +
			"winrm get winrm/config/service/auth"
	case errors.As(err, &fault) && fault.Denied():
		e.Reason, e.Summary = ReasonAuth, "the user may not open a shell"
		e.Remedy = "log in as an administrator; where a local one is refused, run 'winrm quickconfig' on the machine"
	case errors.As(err, &fault):
		e.Reason, e.Summary = ReasonAgent, "WinRM opens no shell"
		e.Remedy = "look at 'winrm get winrm/config/winrs' on the machine"
	}
	return e
}
