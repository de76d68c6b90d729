// Package wsman runs commands on Windows machines by WS-Management (DMTF DSP0226) and its shells
// (MS-WSMV), as winrs does: over HTTPS with NTLM or Kerberos, or over HTTP, sealed by one of them.
package wsman

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/go-ntlmssp"

	"nodejoin/steps/transport/kerberos"
	"nodejoin/steps/transport/sealed"
)

// Config says how to reach a machine.
type Config struct {
	Addr     string // host and port
	User     string // "user", `DOMAIN\user` or "user@domain"
	Password string
	// Kerberos logs connections in; nil = NTLM does, with the password. The client closes it.
	Kerberos *kerberos.Client
	// HTTP is WinRM without TLS: its messages are sealed by what logs in.
	HTTP bool
	// Pin is the SHA-256 of the machine's certificate, lower-case hex; "" = CAs sign it for the host of Addr.
	Pin string
	CAs *x509.CertPool // nil = those of the controller's system
	// Dial opens the byte stream; nil = a plain one.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// ErrRefused says that the machine does not accept the login.
var ErrRefused = errors.New("the login was refused")

// CertificateError says that the machine's certificate is not accepted.
type CertificateError struct {
	SHA256 string // of the certificate, hex
	Err    error
}

func (e *CertificateError) Error() string { return e.Err.Error() }
func (e *CertificateError) Unwrap() error { return e.Err }

// Client makes requests of one machine. A lane is a connection of its own that makes one request at a time: WinRM logs
// connections in, not requests, and one that waits for output must not keep another from sending input.
type Client struct {
	cfg   Config
	url   string
	lanes []*lane
	// forked: it has one lane.
	forked  bool
	nearest atomic.Int64 // see RoundTrip
}

type lane struct {
	client *Client
	http   *http.Client
	busy   sync.Mutex
	sealed *sealed.Session   // with HTTP, of the connection; nil = it has not logged in
	peer   *x509.Certificate // of the machine, as the last reply came with it; nil = without TLS
}

// The lanes of a client.
const (
	laneWork = iota // what is asked and answered at once
	laneWait        // what waits for output
	lanes
)

// writeBuffer is as long as several records of TLS, in bytes: parts of artifacts go in few writes.
const writeBuffer = 64 << 10

// New returns a client; it connects with its first request.
func New(c Config) *Client {
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	host, _, _ := net.SplitHostPort(c.Addr)
	cl := &Client{cfg: c, url: "https://" + c.Addr + "/wsman"}
	if c.HTTP {
		cl.url = "http://" + c.Addr + "/wsman"
	}
	for range lanes {
		cl.lanes = append(cl.lanes, &lane{client: cl, http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: c.Dial, WriteBufferSize: writeBuffer,
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host,
					InsecureSkipVerify:     true, //nolint:gosec // verify does it, with a pin or without one
					VerifyConnection:       func(s tls.ConnectionState) error { return c.verify(s, host) },
					SessionTicketsDisabled: true,
				}}}})
	}
	return cl
}

// verify accepts the pinned certificate, or one that the CAs sign for host. It does not use s.ServerName, which is ""
// for addresses: with that, a certificate for any name would do.
func (c Config) verify(s tls.ConnectionState, host string) error {
	leaf := s.PeerCertificates[0]
	sum := sha256.Sum256(leaf.Raw)
	have := hex.EncodeToString(sum[:])
	if c.Pin != "" {
		if have == c.Pin {
			return nil
		}
		return &CertificateError{SHA256: have, Err: errors.New("the certificate is not the pinned one")}
	}
	between := x509.NewCertPool()
	for _, cert := range s.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: c.CAs, Intermediates: between})
	if err != nil {
		return &CertificateError{SHA256: have, Err: err}
	}
	return nil
}

// Fork returns a client of the same machine that has one connection of its own, and closes nothing else.
func (c *Client) Fork() *Client {
	f := New(c.cfg)
	f.lanes, f.forked = f.lanes[:1], true
	return f
}

// RoundTrip is the shortest time in which the machine has answered a request; 0 = it has not yet.
func (c *Client) RoundTrip() time.Duration { return time.Duration(c.nearest.Load()) }

func (c *Client) answered(in time.Duration) {
	for {
		old := c.nearest.Load()
		if old != 0 && old <= int64(in) || c.nearest.CompareAndSwap(old, int64(in)) {
			return
		}
	}
}

// Close ends the connections. A request under way must be ended by its context.
func (c *Client) Close() {
	for _, l := range c.lanes {
		l.http.CloseIdleConnections()
	}
	if c.cfg.Kerberos != nil && !c.forked {
		c.cfg.Kerberos.Close()
	}
}

// maxReply bounds a reply, in bytes: MaxEnvelope with what XML may add.
const maxReply = 4 << 20

// much input is encoded while it is sent. The package http sends the head of such a request by itself.
const much = 32 << 10

// do sends a request over a lane and returns its reply. It logs in where the machine asks for that.
func (c *Client) do(ctx context.Context, lane int, r request) ([]byte, error) {
	l := c.lanes[min(lane, len(c.lanes)-1)]
	l.busy.Lock()
	defer l.busy.Unlock()
	exchange := c.plain
	if c.cfg.HTTP {
		exchange = c.seal
	}
	status, reply, err := exchange(ctx, l, r.message(c.url))
	if err != nil {
		return nil, err
	}
	switch status {
	case http.StatusOK:
		return reply, nil
	case http.StatusUnauthorized:
		return nil, ErrRefused
	case http.StatusInternalServerError, http.StatusBadRequest: // DSP0226, C.2: of faults
		if f := parseFault(reply); f != nil {
			return nil, f
		}
	}
	return nil, fmt.Errorf("the machine answers with HTTP status %d", status)
}

// plain makes a request over TLS.
func (c *Client) plain(ctx context.Context, l *lane, body message) (int, []byte, error) {
	status, reply, header, err := l.post(ctx, c.url, body, "")
	if err == nil && status == http.StatusUnauthorized {
		return c.login(ctx, l, header, body)
	}
	return status, reply, err
}

// seal makes a request over HTTP. The connection logs in with an empty message first: nothing is sent that is not
// sealed, and no answer counts that is not.
func (c *Client) seal(ctx context.Context, l *lane, body message) (status int, reply []byte, err error) {
	defer func() {
		if err != nil || status == http.StatusUnauthorized {
			l.sealed = nil // a message may be lost, and with it the place in the cipher
			l.http.CloseIdleConnections()
		}
	}()
	for again := false; ; again = true {
		if l.sealed == nil {
			status, _, err = c.plain(ctx, l, message{})
			if err == nil && status == http.StatusOK && l.sealed == nil {
				err = errors.New("the machine takes messages without a login")
			}
			if err != nil || status != http.StatusOK {
				return status, nil, err
			}
		}
		var header http.Header
		status, reply, header, err = l.post(ctx, c.url, message{head: l.sealed.Pack(body.bytes())}, "")
		switch {
		case err != nil:
			return status, nil, err
		case status == http.StatusUnauthorized && !again: // of a new connection
			l.sealed = nil
			continue
		case sealed.Is(header.Get("Content-Type")):
			reply, err = l.sealed.Unpack(reply)
			return status, reply, err
		case status == http.StatusOK:
			return status, nil, errors.New("the machine answers without encryption")
		}
		return status, nil, nil
	}
}

// schemes are what WinRM calls NTLM, in the order of preference. Negotiate takes a bare message of NTLM,
// too (RFC 4559).
var schemes = []string{"Negotiate", "NTLM"}

// login logs the connection of a lane in and makes the request.
func (c *Client) login(ctx context.Context, l *lane, header http.Header, body message) (int, []byte, error) {
	if c.cfg.Kerberos == nil {
		return c.ntlm(ctx, l, header, body)
	}
	const scheme = "Negotiate"
	if _, ok := challenge(header, scheme); !ok {
		return 0, nil, fmt.Errorf("%w: the machine offers no Kerberos, but %q", ErrRefused,
			strings.Join(header.Values("WWW-Authenticate"), ", "))
	}
	k, err := c.cfg.Kerberos.Login(channelBindings(l.peer), c.cfg.HTTP)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: Kerberos: %w", ErrRefused, err)
	}
	status, reply, header, err := l.post(ctx, c.url, body, scheme+" "+base64.StdEncoding.EncodeToString(k.Token))
	if err == nil && status == http.StatusOK && c.cfg.HTTP {
		var raw []byte
		answer, _ := challenge(header, scheme)
		if raw, err = base64.StdEncoding.DecodeString(answer); err == nil {
			l.sealed, err = k.Finish(raw)
		}
		if err != nil {
			err = fmt.Errorf("%w: Kerberos: %w", ErrRefused, err)
		}
	}
	return status, reply, err
}

// ntlm is login by NTLM.
func (c *Client) ntlm(ctx context.Context, l *lane, header http.Header, body message) (int, []byte, error) {
	scheme := ""
	for _, s := range schemes {
		if _, ok := challenge(header, s); ok && scheme == "" {
			scheme = s
		}
	}
	if scheme == "" {
		return 0, nil, fmt.Errorf("%w: the machine offers no NTLM, but %q", ErrRefused,
			strings.Join(header.Values("WWW-Authenticate"), ", "))
	}
	first, err := ntlmssp.NewNegotiateMessage("", "")
	if err != nil {
		return 0, nil, err
	}
	if c.cfg.HTTP { // the library has no name for these flags; the machine repeats them
		binary.LittleEndian.PutUint32(first[12:], binary.LittleEndian.Uint32(first[12:])|sealed.Wanted)
	}
	status, _, header, err := l.post(ctx, c.url, message{}, scheme+" "+base64.StdEncoding.EncodeToString(first))
	if err != nil {
		return 0, nil, err
	}
	token, ok := challenge(header, scheme)
	if status != http.StatusUnauthorized || !ok || token == "" {
		return 0, nil, fmt.Errorf("%w: the machine answers to NTLM with HTTP status %d", ErrRefused, status)
	}
	raw, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return 0, nil, fmt.Errorf("the machine's challenge: %w", err)
	}
	answer, err := authenticate(first, raw, c.cfg.User, c.cfg.Password, l.peer)
	if err != nil {
		return 0, nil, fmt.Errorf("answer the machine's challenge: %w", err)
	}
	status, reply, _, err := l.post(ctx, c.url, body, scheme+" "+base64.StdEncoding.EncodeToString(answer))
	if err == nil && status == http.StatusOK && c.cfg.HTTP {
		l.sealed, err = sealed.NTLM(answer, c.cfg.Password, sealed.Client)
	}
	return status, reply, err
}

// challenge is what the machine says of a scheme of authentication.
func challenge(h http.Header, scheme string) (string, bool) {
	for _, v := range h.Values("WWW-Authenticate") {
		for _, one := range strings.Split(v, ",") {
			name, token, _ := strings.Cut(strings.TrimSpace(one), " ")
			if strings.EqualFold(name, scheme) {
				return token, true
			}
		}
	}
	return "", false
}

// post makes one request. Once it has a reply, nothing reads the input of m any more.
func (l *lane) post(ctx context.Context, url string, m message, auth string) (int, []byte, http.Header, error) {
	stream := newStream(m)
	var body io.Reader = stream
	if len(m.input) < much {
		body = bytes.NewReader(m.bytes())
		_ = stream.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, nil, nil, err
	}
	req.ContentLength = int64(m.size())
	req.GetBody = nil // nothing is sent twice: it could be done twice
	req.Header.Set("Content-Type", "application/soap+xml;charset=UTF-8")
	if l.sealed != nil {
		req.Header.Set("Content-Type", sealed.ContentType)
	}
	req.Header.Set("User-Agent", "nodejoin")
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	begin := time.Now()
	resp, err := l.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, nil, nil, err
	}
	l.client.answered(time.Since(begin))
	l.peer = nil
	if resp.TLS != nil {
		l.peer = resp.TLS.PeerCertificates[0]
	}
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	err = errors.Join(err, resp.Body.Close())
	if err == nil && len(reply) > maxReply {
		err = fmt.Errorf("a reply has more than %d bytes", maxReply)
	}
	select {
	case <-stream.gone:
	case <-ctx.Done():
		err = errors.Join(err, context.Cause(ctx))
	}
	return resp.StatusCode, reply, resp.Header, err
}
