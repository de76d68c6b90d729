package block

import (
	"strings"
	"time"

	"nodejoin/plan/eval"
	"nodejoin/steps"
)

// decodeWinRM reads connection "winrm".
func decodeWinRM(s *eval.Section) *WinRM {
	w := &WinRM{Host: s.Str("host"), Port: int(s.Int("port", 1, 65535, 0)), User: s.Str("user"),
		PasswordEnv: s.Str("password_env"), Timeout: s.Duration("timeout", time.Second, 10*time.Minute, 0)}
	if f := s.Str("ca_file"); f != "" {
		w.CAFile = s.Scope.Files.Home(f)
	}
	pin := s.Str("certificate_sha256")
	w.CertificateSHA256 = strings.ToLower(strings.ReplaceAll(pin, ":", ""))
	switch {
	case pin == "":
	case steps.DigestAlgorithm(w.CertificateSHA256) != "sha256":
		s.Fail("certificate_sha256", "invalid digest", "%q is not the SHA-256 of a certificate, which has 64 hex digits. "+
			"The thumbprint that Windows shows is a SHA-1. Take the one that \"openssl x509 -noout -fingerprint "+
			"-sha256\" prints.",
			pin)
	case w.CAFile != "":
		s.Fail("ca_file", "arguments exclude each other", "A pinned certificate is the only one that is accepted, so "+
			"ca_file has no effect. Remove one of the two.")
	}
	if w.Port == httpPort {
		s.Fail("port", "no encryption", "Port %d is WinRM over HTTP, which nodejoin does not use. Give the machine's "+
			"WinRM a listener for HTTPS, on port %d by default.", httpPort, WinRMPort)
	}
	return w
}

// WinRMPort is where WinRM listens for HTTPS, unless the machine says otherwise.
const WinRMPort = 5986

// httpPort is where WinRM listens without TLS.
const httpPort = 5985
