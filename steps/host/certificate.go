package host

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
)

// CheckCertificate accepts exactly one certificate in DER; any other input is fs.ErrInvalid.
func CheckCertificate(der []byte) error {
	if _, err := x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return nil
}

// Certificates are those of a text in PEM, each in DER.
func Certificates(text []byte) [][]byte {
	var out [][]byte
	for p, rest := pem.Decode(text); p != nil; p, rest = pem.Decode(rest) {
		if p.Type == "CERTIFICATE" {
			out = append(out, p.Bytes)
		}
	}
	return out
}
