package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan/names"
	"nodejoin/steps"
	"nodejoin/steps/transport"
)

// Signing is how a bundle is signed.
type Signing struct {
	Key    string // file of a private key of SSH
	Plan   string // "" = the name of the bundle, without its ending; Check sets it
	Serial int64  // 0 = the seconds since 1970
	// Lasts is how long the release counts; 0 = without end.
	Lasts time.Duration
	// ToSign writes the text of the release, for others to sign.
	ToSign bool

	key   ssh.Signer
	agent net.Conn // of the key; nil = it is in a file
}

const (
	askFor   = 10 * time.Second // that the ssh-agent answers
	touchFor = 2 * time.Minute  // that a person touches a key in hardware
)

// Checking is what the release of a bundle is checked with: files, "" = none.
type Checking struct{ Signers, Sigstore string }

// SigningFlags are those of a bundle's signature.
func SigningFlags(f *pflag.FlagSet, s *Signing, c *Checking) {
	f.StringVar(&s.Key, "sign", "", "also write FILE.tar.release, signed by the `key` of SSH in this file; the "+
		"ssh-agent signs where it is a public key, or has a passphrase")
	f.BoolVar(&s.ToSign, "to-sign", false, "also write FILE.tar.release.json, the text of a release, for others to "+
		"sign: 'cosign sign-blob'")
	f.StringVar(&s.Plan, "plan-name", "", "of a release: `name` by which nodes follow the plan; default that "+
		"of FILE.tar")
	f.Int64Var(&s.Serial, "serial", 0, "of a release: `number`; default the seconds since 1970")
	f.DurationVar(&s.Lasts, "expires", 0, "of a release: `time`, as 720h, after which nodes refuse it; default never")
	f.StringVar(&c.Signers, "signers", "", "with --check: `file` of trusted keys (allowed_signers of ssh-keygen)")
	f.StringVar(&c.Sigstore, "sigstore", "", "with --check: `file` of trusted signers of Sigstore, as nodes have it")
}

// Check refuses flags that do not go together. bundle is the file that is written.
func (s *Signing) Check(split bool, c Checking, bundle string) error {
	if s.Plan == "" {
		name := filepath.Base(bundle)
		s.Plan = strings.TrimSuffix(name, filepath.Ext(name))
	}
	releases := s.Key != "" || s.ToSign
	switch {
	case c.Signers != "":
		return errors.New("--signers goes with --check")
	case c.Sigstore != "":
		return errors.New("--sigstore goes with --check")
	case !releases && s.Serial != 0:
		return errors.New("--serial goes with --sign or --to-sign")
	case releases && !names.IsDNS(s.Plan):
		return fmt.Errorf("--plan-name: %q cannot be the name of a plan; use a-z, 0-9, %q and %q", s.Plan, "-", ".")
	case !releases && s.Lasts != 0:
		return errors.New("--expires goes with --sign or --to-sign")
	case s.Lasts < 0:
		return errors.New("--expires must be a time to come, for example 720h")
	case s.Serial < 0:
		return errors.New("--serial must be 1 or more")
	case releases && split:
		return errors.New("a release needs a bundle in one file: leave out --split")
	}
	return nil
}

// Open reads the key. One with a passphrase, or of which the file has the public part, is that of the ssh-agent.
func (s *Signing) Open(ctx context.Context) error {
	if s.Key == "" {
		return nil
	}
	b, err := os.ReadFile(s.Key)
	if err != nil {
		return err
	}
	s.key, err = ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		if locked.PublicKey == nil {
			return fmt.Errorf("%s has a passphrase; give the file of its public key, and its private key to the ssh-agent",
				s.Key)
		}
		return s.fromAgent(ctx, locked.PublicKey)
	}
	if err != nil {
		public, _, _, _, failed := ssh.ParseAuthorizedKey(b)
		if failed != nil {
			return fmt.Errorf("%s is not a private key of SSH: %w", s.Key, err)
		}
		return s.fromAgent(ctx, public)
	}
	return nil
}

// fromAgent lets the ssh-agent sign with a key.
func (s *Signing) fromAgent(ctx context.Context, public ssh.PublicKey) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	conn, err := transport.DialAgent(ctx, "")
	if err == nil && conn == nil {
		err = errors.New("SSH_AUTH_SOCK is not set")
	}
	if err != nil {
		return fmt.Errorf("%s: the key is in the ssh-agent, which does not answer: %w", s.Key, err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	keys, err := agent.NewClient(conn).Signers()
	if err != nil {
		return fmt.Errorf("%s: the ssh-agent does not list its keys: %w", s.Key, err)
	}
	for _, k := range keys {
		if bytes.Equal(k.PublicKey().Marshal(), public.Marshal()) {
			s.key, s.agent = k, conn
			return nil
		}
	}
	return fmt.Errorf("%s: the ssh-agent does not have this key; run 'ssh-add'", s.Key)
}

// Sign writes the release of a bundle, if it is to have one, and says so.
func (s Signing) Sign(bundle string, say func(format string, args ...any)) error {
	if s.Key == "" && !s.ToSign {
		return nil
	}
	r, err := s.write(bundle)
	if err != nil {
		return err
	}
	if s.Key != "" {
		say("Wrote %s: release %d of the plan %s.", ui.CleanLine(bundle+Suffix), r.Serial, ui.CleanLine(r.Plan))
	}
	if s.ToSign {
		say("Wrote %s: the text of release %d of the plan %s, which is not signed yet.",
			ui.CleanLine(bundle+textSuffix), r.Serial, ui.CleanLine(r.Plan))
	}
	return nil
}

// Check verifies the release of a bundle, if somebody is trusted, and says what it is.
func (c Checking) Check(bundle string, say func(format string, args ...any)) error {
	if c == (Checking{}) {
		return nil
	}
	r, by, err := c.verify(bundle)
	if err == nil {
		say("Signed by %s: release %d of the plan %s, of %s.", ui.CleanLine(by), r.Serial, ui.CleanLine(r.Plan),
			r.Made.UTC().Format(time.RFC3339))
	}
	return err
}

// write writes the release of a bundle beside it.
func (s Signing) write(bundle string) (Release, error) {
	if s.agent != nil {
		defer func() { _ = s.agent.Close() }() // it was only asked
	}
	sum, size, err := digestOf(bundle)
	if err != nil {
		return Release{}, err
	}
	now := time.Now().UTC().Truncate(time.Second)
	r := Release{Version: releaseVersion, Plan: s.Plan, Serial: s.Serial, Made: now, Bundle: filepath.Base(bundle),
		Size: size, SHA256: sum}
	if r.Serial == 0 {
		r.Serial = now.Unix()
	}
	if s.Lasts != 0 {
		r.Expires = now.Add(s.Lasts)
	}
	text, err := r.text()
	if err == nil && s.ToSign {
		err = atomicfile.Write(bundle+textSuffix, text, 0o644)
	}
	if err != nil || s.Key == "" {
		return r, err
	}
	if s.agent != nil {
		if err := s.agent.SetDeadline(time.Now().Add(touchFor)); err != nil {
			return r, err
		}
	}
	signature, err := sign(s.key, text)
	if err != nil {
		return r, err
	}
	return r, atomicfile.Write(bundle+Suffix, append(signature, text...), 0o644)
}

// verify verifies the release beside a bundle, and that it is of this bundle.
func (c Checking) verify(bundle string) (r Release, by string, err error) {
	trusted, err := ReadTrusted(c.Signers, c.Sigstore)
	if err != nil {
		return r, "", err
	}
	b, err := os.ReadFile(bundle + Suffix)
	if err != nil {
		return r, "", err
	}
	untrusted := func(text string) error {
		return &steps.Error{Code: steps.CodeDigest, Summary: "the release cannot be trusted", Detail: text,
			Remedy: "get the bundle and its release again from who made them, or add who signed it to " +
				strings.Join(slices.DeleteFunc([]string{c.Signers, c.Sigstore}, func(f string) bool { return f == "" }),
					" or ")}
	}
	if r, by, err = open(b, trusted, time.Now()); err != nil {
		return r, "", untrusted(bundle + Suffix + ": " + err.Error())
	}
	sum, _, err := digestOf(bundle)
	if err == nil && sum != r.SHA256 {
		err = untrusted(fmt.Sprintf("%s is the release of a bundle with the sha256 %s, and %s has %s", bundle+Suffix,
			r.SHA256, bundle, sum))
	}
	return r, by, err
}
