package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// login holds what one server is offered, and the result.
type login struct {
	hop     hop
	signers []ssh.Signer
	offers  []string // for people: what is tried, in order
	skipped []string // for people: keys that could not be used
	allowed []string // methods that the server takes
	asked   bool     // the server has refused at least the login without any proof
	methods []ssh.AuthMethod
	socket  net.Conn // of the ssh-agent; nil = none
}

// newLogin reads keys and the environment; close frees the ssh-agent.
func newLogin(ctx context.Context, c SSHConfig, h hop) (*login, error) {
	l := &login{hop: h}
	var fromAgent []ssh.Signer
	if h.agent != noAgent {
		fromAgent = l.openAgent(ctx, h.agent)
	}
	passphrase := ""
	if c.PassphraseEnv != "" {
		passphrase = os.Getenv(c.PassphraseEnv)
	}
	var files []ssh.Signer
	var fileOffers []string
	for _, path := range h.identity {
		s, err := c.Files.readKey(path, passphrase, fromAgent)
		if err == nil {
			files, fileOffers = append(files, s),
				append(fileOffers, fmt.Sprintf("key %s (%s)", path, ssh.FingerprintSHA256(s.PublicKey())))
			continue
		}
		if h.explicit {
			l.close()
			return nil, unreadableKey(h, c, path, err)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			l.skipped = append(l.skipped, fmt.Sprintf("%s: %v", path, err))
		}
	}
	if !h.explicit {
		for _, s := range fromAgent {
			l.signers = append(l.signers, s)
			l.offers = append(l.offers, fmt.Sprintf("ssh-agent key %s", ssh.FingerprintSHA256(s.PublicKey())))
		}
	}
	l.signers, l.offers = append(l.signers, files...), append(l.offers, fileOffers...)
	if len(l.signers) > 0 {
		l.methods = append(l.methods, ssh.PublicKeys(l.signers...))
	}
	if c.PasswordEnv != "" {
		password, ok := os.LookupEnv(c.PasswordEnv)
		if !ok {
			l.close()
			return nil, &ConnectError{Reason: ReasonKey, Host: h.name(), Summary: "no password",
				Detail: "the environment variable " + c.PasswordEnv + " is not set",
				Remedy: "set it, or use a key", Err: fs.ErrNotExist}
		}
		l.methods = append(l.methods, ssh.Password(password), ssh.KeyboardInteractive(answerPassword(password)))
		l.offers = append(l.offers, "the password of $"+c.PasswordEnv)
	}
	return l, nil
}

func (l *login) close() {
	if l.socket != nil {
		_ = l.socket.Close()
	}
}

// openAgent asks the ssh-agent at path, or the usual one, for its keys; one that does not answer is noted and left
// out.
func (l *login) openAgent(ctx context.Context, path string) []ssh.Signer {
	conn, err := DialAgent(ctx, path)
	if err != nil {
		l.skipped = append(l.skipped, "ssh-agent: "+err.Error())
	}
	if err != nil || conn == nil {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	l.socket = conn
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		l.skipped = append(l.skipped, "ssh-agent: "+err.Error())
		return nil
	}
	return signers
}

var (
	errEncrypted  = errors.New("the key is encrypted and no passphrase is given")
	errPassphrase = errors.New("the passphrase does not open the key")
)

// readKey reads a private key; one that is encrypted may be held open by the ssh-agent.
func (f *SSHFiles) readKey(path, passphrase string, fromAgent []ssh.Signer) (ssh.Signer, error) {
	s, err := f.key(path, "")
	var missing *ssh.PassphraseMissingError
	if !errors.As(err, &missing) {
		return s, err
	}
	if passphrase != "" {
		if s, err = f.key(path, passphrase); err != nil {
			return nil, errPassphrase
		}
		return s, nil
	}
	public := missing.PublicKey
	if public == nil {
		if b, err := os.ReadFile(path + ".pub"); err == nil {
			public, _, _, _, _ = ssh.ParseAuthorizedKey(b)
		}
	}
	if public != nil {
		i := slices.IndexFunc(fromAgent, func(s ssh.Signer) bool {
			return string(s.PublicKey().Marshal()) == string(public.Marshal())
		})
		if i >= 0 {
			return fromAgent[i], nil
		}
	}
	return nil, errEncrypted
}

func unreadableKey(h hop, c SSHConfig, path string, err error) error {
	e := &ConnectError{Reason: ReasonKey, Host: h.name(), Summary: "the key cannot be used",
		Detail: fmt.Sprintf("%s: %v", path, err), Err: err}
	switch {
	case errors.Is(err, errEncrypted) && c.PassphraseEnv != "":
		e.Remedy = "set the environment variable " + c.PassphraseEnv + ", or add the key to the ssh-agent"
	case errors.Is(err, errEncrypted):
		e.Remedy = "name an environment variable with the passphrase (passphrase_env), or add the key to the ssh-agent"
	case errors.Is(err, errPassphrase):
		e.Remedy = "check the value of the environment variable " + c.PassphraseEnv
	case errors.Is(err, fs.ErrNotExist):
		e.Remedy = "check the path, or leave identity out to use the ssh-agent and the default keys"
	case errors.Is(err, fs.ErrPermission):
		e.Remedy = "make the file readable for the user that runs nodejoin"
	default:
		e.Remedy = "a private key in the OpenSSH or PEM form is needed, not its .pub file"
	}
	return e
}

// answerPassword answers the first question that does not echo, and no other, so that a refused password is
// not sent again.
func answerPassword(password string) ssh.KeyboardInteractiveChallenge {
	sent := false
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		answers := make([]string, len(questions))
		for i := range questions {
			if !echos[i] {
				if sent {
					return nil, errors.New("the password was refused")
				}
				answers[i], sent = password, true
			}
		}
		return answers, nil
	}
}

// next notes what the server takes; the choice stays with the library.
func (l *login) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.asked, l.allowed = true, c.AllowedMethods
	return nil, nil
}

// refused is the error of a server that took none of the offers.
func (l *login) refused(err error) error {
	e := &ConnectError{Reason: ReasonAuth, Host: l.hop.name(), Summary: "the login was refused", Err: err}
	tried := "nothing could be offered"
	if len(l.offers) > 0 {
		tried = "tried " + strings.Join(l.offers, ", ")
	}
	e.Detail = fmt.Sprintf("as user %s: %s", l.hop.user, tried)
	if len(l.allowed) > 0 {
		e.Detail += "; the server takes " + strings.Join(l.allowed, ", ")
	}
	if len(l.skipped) > 0 {
		e.Detail += "; not usable: " + strings.Join(l.skipped, ", ")
	}
	e.Remedy = "check the user, and that the key is in its authorized_keys (administrators of Windows: " +
		"C:\\ProgramData\\ssh\\administrators_authorized_keys)"
	return e
}
