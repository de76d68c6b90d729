package kinds

import (
	"context"
	"crypto/x509"
	"strings"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// CredentialLife is a credential on a machine and its life.
type CredentialLife struct {
	What, Path string
	From, Ends time.Time
	// Late is when it should have been renewed: in the last third of a token's life, in the last tenth of a
	// certificate's, as the kubelet renews its own after 70 to 90 % (k8s.io/client-go util/certificate).
	Late time.Time
}

// Credentials reads the credentials that a step has on the machine: tokens, client and serving certificates, CAs.
// Those that are not there, or cannot be read, are none: the steps' own checks report them.
func Credentials(ctx context.Context, r host.FilesReader, os string, step any) ([]CredentialLife, error) {
	read := func(path string) (string, error) {
		f, err := host.ReadFile(ctx, r, path, host.MaxText)
		if err != nil || f == nil {
			return "", err
		}
		return string(f.Content), nil
	}
	switch s := step.(type) {
	case *TokenFile:
		text, err := read(s.Path)
		return tokenLife(s.Path, text), err
	case *Kubeconfig:
		text, err := read(s.Path)
		if f, wrong := parseKubeconfig([]byte(text)); wrong == nil {
			return tokenLife(s.Path, f.secret.Token), err
		}
		return nil, err
	case *CredentialsReady:
		text, err := read(s.Path)
		f, wrong := parseKubeconfig([]byte(text))
		if err != nil || wrong != nil {
			return nil, err
		}
		path, pem := s.Path, string(f.secret.CertData)
		if pem == "" && f.secret.CertFile != "" {
			path = besides(os, s.Path, f.secret.CertFile)
			pem, err = read(path)
		}
		return certificateLife("client certificate", path, pem), err
	case *FileReady:
		if s.Contains != "BEGIN CERTIFICATE" {
			return nil, nil
		}
		text, err := read(s.Path)
		return certificateLife("serving certificate", s.Path, text), err
	case *File:
		if !strings.HasSuffix(s.Path, ".crt") || s.Absent {
			return nil, nil
		}
		text, err := read(s.Path)
		return certificateLife("CA", s.Path, text), err
	}
	return nil, nil
}

func tokenLife(path, text string) []CredentialLife {
	t, err := kube.ParseToken(strings.TrimSpace(text))
	if err != nil || t.Ends.IsZero() || t.Issued.IsZero() {
		return nil
	}
	return []CredentialLife{{What: "token", Path: path, From: t.Issued, Ends: t.Ends,
		Late: t.Ends.Add(-t.Ends.Sub(t.Issued) / 3)}}
}

// certificateLife is that of the first certificate, which is the one of the file; others are its issuers.
func certificateLife(what, path, pem string) []CredentialLife {
	all := host.Certificates([]byte(pem))
	if len(all) == 0 {
		return nil
	}
	c, err := x509.ParseCertificate(all[0])
	if err != nil {
		return nil
	}
	return []CredentialLife{{What: what, Path: path, From: c.NotBefore, Ends: c.NotAfter,
		Late: c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 10)}}
}
