package block

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"nodejoin/plan/eval"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
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
	authWinRM(s, w)
	if w.HTTP = w.Port == httpPort; w.HTTP {
		overHTTP(s)
	}
	ssh := decodeJumps(s)
	if len(ssh.Jump) > 0 {
		w.Through = ssh
	}
	decodeSetupSSH(s, w, ssh)
	withoutEffectWinRM(s, w)
	return w
}

// authWinRM checks how the user logs in.
func authWinRM(s *eval.Section, w *WinRM) {
	methods := []string{"ntlm", "kerberos"}
	auth := s.StrOr("auth", "ntlm")
	w.Kerberos = auth == "kerberos"
	_, notName := netip.ParseAddr(w.Host)
	switch {
	case !slices.Contains(methods, auth):
		s.Fail("auth", "unknown value", "%q is not a value of %q. Use %s.%s", auth, "auth", eval.OneOf(methods),
			eval.DidYouMean(auth, methods))
	case w.Kerberos && notName == nil:
		s.Fail("host", "address without service", "Kerberos knows machines by their names: the service of this one would "+
			"be HTTP/%s, which no realm has. Write the name that the machine has in its domain.", w.Host)
	case w.Kerberos && strings.Contains(w.User, `\`):
		s.Fail("user", "invalid principal", "%q is a user in NTLM's form. Write it as Kerberos does: user@REALM.", w.User)
	case !w.Kerberos && !s.Has("password_env") && !s.Misspelt("password_env") && !s.Misspelt("auth"):
		s.FailAt(s.Block.DefRange, "missing argument", "NTLM needs a password. Name the environment variable of the "+
			"controller that holds it with password_env, or use auth = \"kerberos\" and the tickets of kinit.")
	}
}

// decodeSetupSSH reads what is about an SSH server for later runs.
func decodeSetupSSH(s *eval.Section, w *WinRM, login *SSH) {
	on, key := s.Bool("setup_ssh"), s.Str("ssh_public_key")
	switch {
	case on && !s.Has("ssh_public_key") && !s.Misspelt("ssh_public_key"):
		s.Fail("setup_ssh", "missing argument", "Later runs log in at the SSH server with a key. Give its public part with "+
			"ssh_public_key, for example file(\"id_ed25519.pub\").")
	case !on && s.Has("ssh_public_key") && !s.Misspelt("setup_ssh"):
		s.Fail("ssh_public_key", "argument without effect", "It is the key for the SSH server that setup_ssh sets up. Add "+
			"setup_ssh = true, or remove ssh_public_key.")
	case key != "" && !kinds.PublicKey(key):
		s.Fail("ssh_public_key", "invalid public key", "%s", kinds.NotPublicKey)
	case on:
		w.SetupSSH = &SetupSSH{Key: strings.TrimSpace(key), Identity: login.Identity, PassphraseEnv: login.PassphraseEnv}
	}
}

// withoutEffectWinRM reports arguments for jump hosts that have no effect.
func withoutEffectWinRM(s *eval.Section, w *WinRM) {
	switch {
	case w.Through != nil && pinned(w.Through):
		for _, name := range verifying(s) {
			s.Fail(name, "argument without effect", "The keys of all jump hosts are pinned, and no other is accepted. "+
				"Remove %s, or a key of jump_host_keys.", name)
		}
	case w.Through == nil && !s.Has("jump") && !s.Misspelt("jump"):
		for _, name := range []string{"identity", "known_hosts", "accept_new", "passphrase_env"} {
			if s.Has(name) && (w.SetupSSH == nil || name == "known_hosts" || name == "accept_new") {
				s.Fail(name, "argument without effect", "It is about jump hosts, of which there is none: WinRM itself has "+
					"neither keys nor known hosts. Add jump, or remove %s.", name)
			}
		}
	}
}

// WinRMPort is where WinRM listens for HTTPS, unless the machine says otherwise.
const WinRMPort = 5986

// httpPort is where WinRM listens without TLS.
const httpPort = 5985

// overHTTP checks what is about WinRM over HTTP.
func overHTTP(s *eval.Section) {
	for _, name := range []string{"certificate_sha256", "ca_file"} {
		if s.Has(name) {
			s.Fail(name, "argument without effect", "Port %d is WinRM over HTTP, which has no certificate. Remove the "+
				"argument, or use the listener for HTTPS, on port %d by default.", httpPort, WinRMPort)
		}
	}
}
