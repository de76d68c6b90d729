package kinds

import (
	"context"
	"crypto/x509"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// textOf reads a file, "" if it does not exist.
func textOf(ctx context.Context, r host.FilesReader, path string) (string, error) {
	f, err := host.ReadFile(ctx, r, path, host.MaxText)
	if err != nil || f == nil {
		return "", err
	}
	return string(f.Content), nil
}

func tokenLife(path, text string) []steps.Credential {
	t, err := kube.ParseToken(strings.TrimSpace(text))
	if err != nil || t.Ends.IsZero() || t.Issued.IsZero() {
		return nil
	}
	return []steps.Credential{{What: "token", Path: path, From: t.Issued, Ends: t.Ends,
		Late: t.Ends.Add(-t.Ends.Sub(t.Issued) / 3)}}
}

// certificateLife is that of the first certificate, which is the one of the file; others are its issuers.
func certificateLife(what, path, pem string) []steps.Credential {
	all := host.Certificates([]byte(pem))
	if len(all) == 0 {
		return nil
	}
	c, err := x509.ParseCertificate(all[0])
	if err != nil {
		return nil
	}
	return []steps.Credential{{What: what, Path: path, From: c.NotBefore, Ends: c.NotAfter,
		Late: c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 10)}}
}
