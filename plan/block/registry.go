package block

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
)

func mirrorURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		u.RawQuery == "" && u.Fragment == ""
}

// certificates reports whether text is one or more certificates in PEM.
func certificates(text string) bool {
	rest, n := []byte(text), 0
	for {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return n > 0
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil || b.Type != "CERTIFICATE" {
			return false
		}
		n++
	}
}
