package names

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// ReleaseNamespace is that of the signatures of releases.
const ReleaseNamespace = "release@nodejoin.dev"

// signerTypes are the types of keys that may sign releases.
var signerTypes = []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
	"ecdsa-sha2-nistp521", "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"}

// Signer is a key that may sign releases.
type Signer struct {
	Name          string    // the principals, as the file has them
	Key           []byte    // RFC 4253, section 6.6
	After, Before time.Time // zero = no bound
}

// Signers reads trusted keys, in the form of allowed_signers (ssh-keygen(1), ALLOWED SIGNERS). A key whose namespaces
// leave out that of releases is not trusted.
func Signers(text string) (out []Signer, err error) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, ok, err := signerOf(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if ok {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no key that may sign releases; write a line 'NAME ssh-ed25519 AAAA...'")
	}
	return out, nil
}

// signerOf reads a line. ok is false for a key that is for something else than releases.
func signerOf(line string) (s Signer, ok bool, err error) {
	if strings.HasPrefix(line, "-----BEGIN") {
		return s, false, errors.New("it begins a private key or a certificate; give public keys only")
	}
	name, rest := word(line)
	var options string
	typ, rest := word(rest)
	if !slices.Contains(signerTypes, typ) {
		options = typ
		typ, rest = word(rest)
	}
	text, _ := word(rest) // a comment is behind it
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !slices.Contains(signerTypes, typ) || !wholeKey(key, typ) || strings.HasPrefix(name, `"`) {
		return s, false, errors.New("want 'NAME [OPTIONS] TYPE KEY', as ssh-keygen takes it in allowed_signers, with a " +
			"key of ed25519, ecdsa or rsa")
	}
	s = Signer{Name: name, Key: key}
	for options != "" {
		var one string
		one, options = upTo(options, ",")
		if ok, err := s.option(one); err != nil || !ok {
			return s, false, err
		}
	}
	return s, true, nil
}

// option reads an option. ok is false if the key is for something else than releases.
func (s *Signer) option(text string) (ok bool, err error) {
	name, value, _ := strings.Cut(text, "=")
	value = strings.Trim(value, `"`)
	switch strings.ToLower(name) {
	case "namespaces":
		return matches(value), nil
	case "valid-after":
		s.After, err = timeOf(value)
	case "valid-before":
		s.Before, err = timeOf(value)
	default: // cert-authority is one
		err = fmt.Errorf("the option %s is not known; name the key itself, with namespaces, valid-after or valid-before",
			name)
	}
	return err == nil, err
}

// word is the first word of a text, and what is behind it.
func word(text string) (first, rest string) {
	first, rest = upTo(text, " \t")
	return first, strings.TrimLeft(rest, " \t")
}

// upTo divides a text at the first of some characters that is not between quotes.
func upTo(text, ends string) (before, after string) {
	quoted := false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case !quoted && strings.ContainsRune(ends, c):
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// wholeKey reports whether a key is one of a type: fields with their lengths before them, the first of which is the
// type (RFC 4253, section 6.6).
func wholeKey(key []byte, typ string) bool {
	fields := 0
	for ; len(key) >= 4; fields++ {
		n := int(binary.BigEndian.Uint32(key))
		if n > len(key)-4 || fields == 0 && string(key[4:4+n]) != typ {
			return false
		}
		key = key[4+n:]
	}
	return len(key) == 0 && fields > 1
}

// matches reports whether a list of patterns has the namespace of releases.
func matches(patterns string) (ok bool) {
	for _, p := range strings.Split(patterns, ",") {
		not := strings.HasPrefix(p, "!")
		if hit, err := path.Match(strings.TrimPrefix(p, "!"), ReleaseNamespace); err == nil && hit {
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
