package pull

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// signer is a key that may sign releases.
type signer struct {
	name          string // the principals, as the file has them
	key           []byte
	after, before time.Time // zero = no bound
}

// Signers are the keys that may sign releases.
type Signers []signer

// maxSigners bounds what is read of a file of keys, in bytes.
const maxSigners = 1 << 20

// ReadSigners reads a file of trusted keys, in the form of allowed_signers (ssh-keygen(1), ALLOWED SIGNERS). A key
// whose namespaces leave out that of releases is not trusted.
func ReadSigners(file string) (Signers, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(b) > maxSigners {
		return nil, fmt.Errorf("%s has %d bytes; a file of trusted keys has at most %d", file, len(b), maxSigners)
	}
	var out Signers
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, ok, err := signerOf(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		if ok {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no key that may sign releases; write a line 'NAME ssh-ed25519 AAAA...'", file)
	}
	return out, nil
}

// signerOf reads a line. ok is false for a key that is for something else than releases.
func signerOf(line string) (s signer, ok bool, err error) {
	name, rest, _ := strings.Cut(line, " ")
	key, _, options, more, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil || len(more) > 0 || strings.HasPrefix(name, "\"") {
		return s, false, fmt.Errorf("want 'NAME [OPTIONS] TYPE KEY', as ssh-keygen takes it in allowed_signers")
	}
	if algorithms[key.Type()] == nil {
		return s, false, fmt.Errorf("a key of the type %s is not trusted; use ed25519, ecdsa or rsa", key.Type())
	}
	s = signer{name: name, key: key.Marshal()}
	for _, o := range options {
		option, value, _ := strings.Cut(o, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(option) {
		case "namespaces":
			if !matches(value) {
				return s, false, nil
			}
		case "valid-after":
			s.after, err = timeOf(value)
		case "valid-before":
			s.before, err = timeOf(value)
		default: // cert-authority is one
			err = fmt.Errorf("the option %s is not known; name the key itself, with namespaces, valid-after or "+
				"valid-before", option)
		}
		if err != nil {
			return s, false, err
		}
	}
	return s, true, nil
}

// matches reports whether a list of patterns has the namespace of releases.
func matches(patterns string) (ok bool) {
	for _, p := range strings.Split(patterns, ",") {
		not := strings.HasPrefix(p, "!")
		if hit, err := path.Match(strings.TrimPrefix(p, "!"), namespace); err == nil && hit {
			if not {
				return false
			}
			ok = true
		}
	}
	return ok
}

// timeOf reads a time of allowed_signers: YYYYMMDD or YYYYMMDDHHMM[SS], local or with Z.
func timeOf(text string) (time.Time, error) {
	in := time.Local
	plain := strings.TrimSuffix(text, "Z")
	if plain != text {
		in = time.UTC
	}
	layout := "20060102150405"
	if n := len(plain); n == 8 || n == 12 || n == 14 {
		if t, err := time.ParseInLocation(layout[:n], plain, in); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time as YYYYMMDD or YYYYMMDDHHMM[SS][Z]", text)
}

// find returns the name of a key.
func (s Signers) find(key ssh.PublicKey, now time.Time) (string, error) {
	have := key.Marshal()
	err := fmt.Errorf("its signature is of a key that is not trusted here: %s", ssh.FingerprintSHA256(key))
	for _, one := range s {
		switch {
		case !bytes.Equal(one.key, have):
		case !one.after.IsZero() && now.Before(one.after):
			err = fmt.Errorf("the key of %s is trusted from %s on", one.name, one.after.UTC().Format(time.RFC3339))
		case !one.before.IsZero() && !now.Before(one.before):
			err = fmt.Errorf("the key of %s was trusted until %s", one.name, one.before.UTC().Format(time.RFC3339))
		default:
			return one.name, nil
		}
	}
	return "", err
}
