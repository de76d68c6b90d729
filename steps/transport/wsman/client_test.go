package wsman

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestVerify: a certificate that a CA signs is accepted only if it is for the host of the plan, name or address.
func TestVerify(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	cas := x509.NewCertPool()
	cas.AddCert(s.Certificate())
	_, port, _ := strings.Cut(s.Listener.Addr().String(), ":")
	for host, accepted := range map[string]bool{"127.0.0.1": true, "example.com": true, "127.0.0.2": false,
		"example.net": false} {
		c := New(Config{Addr: host + ":" + port, CAs: cas})
		config := c.lanes[laneWork].http.Transport.(*http.Transport).TLSClientConfig
		conn, err := tls.Dial("tcp", s.Listener.Addr().String(), config)
		if err == nil {
			_ = conn.Close()
		}
		var bad *CertificateError
		if accepted != (err == nil) || err != nil && !errors.As(err, &bad) {
			t.Errorf("%s: %v, want accepted: %t", host, err, accepted)
		}
	}
}
