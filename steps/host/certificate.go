package host

import (
	"crypto/x509"
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
