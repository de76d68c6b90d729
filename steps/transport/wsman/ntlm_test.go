package wsman

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/go-ntlmssp"

	"nodejoin/steps/transport/winrmtest"
)

// TestBindingsOf: the example of Microsoft's "NTLM and Channel Binding Hash (aka Extended Protection for
// Authentication)", from the blog of the team of the open specifications, 26 March 2013.
func TestBindingsOf(t *testing.T) {
	sum, err := hex.DecodeString("ea05fefecc6b0bd571dbbc5baa3ed45386d0446835f7b74c85621b9983475f95")
	if err != nil {
		t.Fatal(err)
	}
	const want = "6586e99d81c2fc984e47172fd4dd0310"
	if have := hex.EncodeToString(bindingsOf(sum)); have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

// TestStrict: a server that wants logins bound to its certificate, with a MIC, takes ours, and neither one without
// them, nor one that is bound to another certificate, nor one whose messages were changed on the way. A server that
// does not want them refuses wrong ones, too.
func TestStrict(t *testing.T) {
	other := winrmtest.New(t, "Administrator", "pass", nil)
	right := func(first, raw []byte, cert *x509.Certificate) ([]byte, error) {
		return authenticate(first, raw, "Administrator", "pass", cert)
	}
	foreign := func(first, raw []byte, _ *x509.Certificate) ([]byte, error) {
		return authenticate(first, raw, "Administrator", "pass", certificateOf(t, other.Addr))
	}
	changed := func(first, raw []byte, cert *x509.Certificate) ([]byte, error) {
		m, err := right(first, raw, cert)
		if err == nil {
			m[60] ^= 0x10 // a flag
		}
		return m, err
	}
	unbound := func(first, raw []byte, _ *x509.Certificate) ([]byte, error) {
		return authenticate(first, raw, "Administrator", "pass", nil)
	}
	bare := func(_, raw []byte, _ *x509.Certificate) ([]byte, error) {
		return ntlmssp.NewAuthenticateMessage(raw, "Administrator", "pass", nil)
	}
	for name, tt := range map[string]struct {
		answer          answer
		strict, relaxed bool // accepted by a server that is
	}{
		"bound": {right, true, true}, "to another certificate": {foreign, false, false},
		"changed": {changed, false, false}, "not bound": {unbound, false, true}, "no MIC": {bare, false, true},
	} {
		for strict, want := range map[bool]bool{true: tt.strict, false: tt.relaxed} {
			s := winrmtest.New(t, "Administrator", "pass", nil)
			s.Strict = strict
			if have := admitted(t, s.Addr, tt.answer); have != want {
				t.Errorf("%s, strict: %t: accepted: %t, want %t", name, strict, have, want)
			}
		}
	}
	s := winrmtest.New(t, "Administrator", "pass", nil)
	s.Strict = true
	c := New(Config{Addr: s.Addr, User: "Administrator", Password: "pass", Pin: s.SHA256})
	defer c.Close()
	shell, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Delete(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// answer makes the AUTHENTICATE_MESSAGE to a challenge, for a certificate.
type answer func(first, challenge []byte, cert *x509.Certificate) ([]byte, error)

// admitted reports whether a server accepts a login.
func admitted(t *testing.T, addr string, login answer) bool {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	post := func(token []byte) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr+"/wsman", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Negotiate "+base64.StdEncoding.EncodeToString(token))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	first, err := ntlmssp.NewNegotiateMessage("", "")
	if err != nil {
		t.Fatal(err)
	}
	resp := post(first)
	challenge, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(resp.Header.Get("WWW-Authenticate"),
		"Negotiate "))
	if err != nil {
		t.Fatal(err)
	}
	token, err := login(first, challenge, resp.TLS.PeerCertificates[0])
	if err != nil {
		t.Fatal(err)
	}
	return post(token).StatusCode != http.StatusUnauthorized
}

func certificateOf(t *testing.T, addr string) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// TestChallengeOfAStranger: a challenge that is not well-formed is an error.
func TestChallengeOfAStranger(t *testing.T) {
	head := append([]byte("NTLMSSP\x00\x02\x00\x00\x00"), make([]byte, 36)...)
	for name, info := range map[string][]byte{"no end": {6, 0, 4, 0, 1, 0, 0, 0}, "cut off": {6, 0, 40, 0, 1, 0},
		"too short": {6}} {
		m := append(bytes.Clone(head), info...)
		putField(m, targetInfoAt, len(info), len(head))
		if _, err := authenticate(nil, m, "u", "p", nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		putField(m, targetInfoAt, len(info), 1<<30)
		if _, err := authenticate(nil, m, "u", "p", nil); err == nil {
			t.Errorf("%s, outside of the message: no error", name)
		}
	}
	if _, err := authenticate(nil, head[:20], "u", "p", nil); err == nil {
		t.Error("a message of 20 bytes: no error")
	}
}
