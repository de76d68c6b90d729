package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/transport/wsman"
)

// WinRMConfig says how to reach a Windows machine over WinRM: HTTPS, with NTLM.
type WinRMConfig struct {
	Target

	Host string // name or address, for which the certificate is
	Port int    // 0 = 5986
	User string // "user", `DOMAIN\user` or "user@domain"
	// PasswordEnv names the environment variable with the password.
	PasswordEnv string
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

// winrmConn is a Conn over WinRM. The agent runs in a shell of the machine: its standard input and output are the
// shell's streams.
type winrmConn struct {
	agentConn
	client *wsman.Client
	shell  *wsman.Shell
	path   *winrmPath
	// unreached says that the machine cannot fetch artifacts from the controller.
	unreached bool
	life      context.Context // of the connection; hangUp ends it
	end       context.CancelFunc
	run       context.Context // of the requests; it ends a little later, so that the agent can end by itself
}

// DialWinRM connects to a machine, logs in and starts the agent there, as DialSSH does.
func DialWinRM(ctx context.Context, c WinRMConfig, agents AgentSource) (Conn, error) {
	var err error
	if c.Target, err = c.filled(c.Host); err != nil {
		return nil, err
	}
	if c.Port == 0 {
		c.Port = DefaultWinRMPort
	}
	addr := net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	name := c.User + "@" + addr
	config, err := c.client(name, addr)
	if err != nil {
		return nil, err
	}
	lookup := agents.lookUp(ctx, c.Target)
	path := &winrmPath{hops: []hop{{host: c.Host, port: c.Port, user: c.User}}}
	config.Dial = path.dial
	client := wsman.New(config)
	shell, err := path.open(ctx, c, client)
	if err != nil {
		lookup.cancel()
		client.Close()
		path.close()
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, context.Cause(ctx)
		}
		return nil, cleaned(err)
	}
	s := &winrmConn{client: client, shell: shell, path: path,
		agentConn: agentConn{cfg: c.Target, name: name, user: c.User, over: make(chan struct{}),
			needs: "WinRM must allow shells, and the machine must have tar.exe, as Windows Server 2019 and later have"}}
	s.door = s
	run, over := context.WithCancel(context.WithoutCancel(ctx))
	s.run = run
	s.life, s.end = context.WithCancel(run)
	s.stop = func() {}                 // hangUp does it, after the last messages
	s.work.Go(func() { s.wait(over) }) //nolint:contextcheck // the connection outlives ctx
	s.work.Go(s.keepAlive)
	if s.file, err = lookup.wait(ctx, name); err == nil {
		if err = s.start(ctx); err != nil {
			err = cleaned(s.failed(ctx, err))
		}
	}
	if err != nil {
		_ = s.Close() //nolint:contextcheck // ctx may have ended; the connection closes all the same
		return nil, err
	}
	return s, nil
}

// client is what the client of WS-Management needs.
func (c WinRMConfig) client(name, addr string) (wsman.Config, error) {
	w := wsman.Config{Addr: addr, User: c.User, Password: os.Getenv(c.PasswordEnv), Pin: c.CertificateSHA256}
	if w.Password == "" {
		return w, &ConnectError{Reason: ReasonAuth, Host: name, Summary: "no password",
			Detail: "the environment variable " + c.PasswordEnv + " is empty or not set",
			Remedy: "set it to the password of " + c.User}
	}
	if c.CAFile == "" {
		return w, nil
	}
	text, err := os.ReadFile(c.CAFile)
	if err == nil {
		w.CAs = x509.NewCertPool()
		if !w.CAs.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s has no certificate in PEM form", c.CAFile)
		}
	}
	if err != nil {
		return w, &ConnectError{Reason: ReasonKey, Host: name, Summary: "the CA certificates cannot be read",
			Detail: err.Error(), Err: err, Remedy: "name a file of certificates in PEM form with ca_file"}
	}
	return w, nil
}

// refusedWinRM says why there is no shell.
func refusedWinRM(c WinRMConfig, name string, err error) error {
	e := &ConnectError{Reason: ReasonUnreachable, Host: name, Summary: "no connection", Detail: err.Error(), Err: err,
		Remedy: "check the address, the firewall, and that the machine's WinRM listens for HTTPS: " +
			"winrm enumerate winrm/config/listener"}
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
		e.Remedy = fmt.Sprintf("give WinRM a listener for HTTPS with a certificate, by default on port %d; nodejoin does "+
			"not use WinRM over HTTP", DefaultWinRMPort)
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

// Address is the address that was connected to; behind a jump host that is known only where the plan gives it.
func (s *winrmConn) Address(host.Facts) string { return publicAddress(s.path.remote) }

func (s *winrmConn) hangUp() { s.end() }

// release waits, within bounds, until the agent and the shell have ended: the agent must not be cut off while it ends
// by itself.
func (s *winrmConn) release() { <-s.over }

// wait waits for the end of the connection, then for that of the agent, whose input ends, and ends the shell.
func (s *winrmConn) wait(over context.CancelFunc) {
	defer close(s.over)
	<-s.life.Done()
	if _, p := s.agent(); p != nil && s.lostBy() == nil {
		t := time.AfterFunc(2*closeBound, over)
		_ = p.CloseWrite() // which Close or Forget may have done
		p.end(closeBound)
		t.Stop()
	}
	over()
	bound := s.cfg.boundOf("end the shell", wire.Bound{Within: shellBound}).Within
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.run), bound)
	defer cancel()
	_ = s.shell.Delete(ctx) // else the machine ends it by itself
	s.client.Close()
	s.path.close()
}

// shellBound bounds the end of a shell, for which a lost connection has to be made again.
const shellBound = 10 * time.Second

// keepAlive shows the agent that the controller is there. A machine that does not take it is lost, see
// winrmProgram.send.
func (s *winrmConn) keepAlive() {
	t := time.NewTicker(s.cfg.KeepAlive)
	defer t.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-t.C:
			s.ping()
		}
	}
}
