package pull

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodejoin/plan/signature"
)

// Trusted is whose signatures of releases count.
type Trusted struct {
	Keys     Signers            // of SSH; nil = none
	Sigstore *signature.Signers // nil = none
}

// ReadTrusted reads the files of trusted keys and of Sigstore signers; "" = there is none.
func ReadTrusted(signers, sigstore string) (Trusted, error) {
	return readTrusted(signers, sigstore, readTrust)
}

// readTrusted reads them with read.
func readTrusted(signers, sigstore string, read func(file string) ([]byte, error)) (t Trusted, err error) {
	if signers != "" {
		if t.Keys, err = readSigners(signers, read); err != nil {
			return t, err
		}
	}
	if sigstore != "" {
		t.Sigstore, err = readSigstore(sigstore, read)
	}
	return t, err
}

// readSigstore reads a file of Sigstore signers, and the trust root that it names.
func readSigstore(file string, read func(file string) ([]byte, error)) (*signature.Signers, error) {
	b, err := read(file)
	if err != nil {
		return nil, err
	}
	t, err := signature.ParseTrust(b)
	if err == nil && t.TrustRoot != "" && !filepath.IsAbs(t.TrustRoot) {
		err = fmt.Errorf("trust_root is %q; it must be an absolute path", t.TrustRoot)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var root *signature.Root
	if t.TrustRoot != "" {
		if b, err = read(t.TrustRoot); err != nil {
			return nil, err
		}
		if root, err = signature.ParseRoot(b); err != nil {
			return nil, fmt.Errorf("%s: %w", t.TrustRoot, err)
		}
	}
	out, err := t.Signers(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// maxTrust bounds what is read of a file that says whom to trust, in bytes.
const maxTrust = 1 << 20

// readTrust reads a file that says whom to trust.
func readTrust(file string) ([]byte, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(in, maxTrust+1))
	if err == nil && len(b) > maxTrust {
		err = fmt.Errorf("%s has more than %d bytes; it is something else", file, maxTrust)
	}
	return b, err
}

// readClosed reads a file that says whom to trust, and that nobody else on the machine may write.
func readClosed(file string) ([]byte, error) {
	if err := closed(file); err != nil {
		return nil, err
	}
	return readTrust(file)
}

// signatures are those that the file of a release has before its text; nil = it has none of the form.
type signatures struct{ ssh, sigstore []byte }

// split divides the file of a release into its signatures and its text, which is what each of them signs. White space
// behind a Sigstore bundle is not part of the text.
func split(file []byte) (s signatures, text []byte, err error) {
	again := errors.New("it has two signatures of the same form")
	for text = file; ; {
		if end := bytes.Index(text, []byte(sigEnds)); bytes.HasPrefix(text, []byte(sigBegins)) && end >= 0 {
			if s.ssh != nil {
				return s, nil, again
			}
			s.ssh, text = text[:end+len(sigEnds)], text[end+len(sigEnds):]
			continue
		}
		bundle, rest := cutBundle(text)
		switch {
		case bundle != nil && s.sigstore != nil:
			return s, nil, again
		case bundle != nil:
			s.sigstore, text = bundle, rest
			continue
		case oldBundle(text):
			return s, nil, errors.New("it has a bundle of an older form of cosign; sign with cosign 3, or with " +
				"--new-bundle-format")
		case s.ssh == nil && s.sigstore == nil:
			return s, nil, errors.New("it is not signed: it begins with neither a whole signature of SSH nor a " +
				"bundle of Sigstore")
		}
		return s, text, nil
	}
}

// cutBundle returns the bundle that a text begins with, and what is behind it; nil = it begins with none.
func cutBundle(text []byte) (bundle, rest []byte) {
	const space = " \t\r\n"
	begin := bytes.TrimLeft(text, space)
	if !bytes.HasPrefix(begin, []byte("{")) {
		return nil, text
	}
	d := json.NewDecoder(bytes.NewReader(begin))
	var b struct {
		MediaType string `json:"mediaType"`
	}
	if d.Decode(&b) != nil || !strings.HasPrefix(b.MediaType, "application/vnd.dev.sigstore.bundle") {
		return nil, text
	}
	return begin[:d.InputOffset()], bytes.TrimLeft(begin[d.InputOffset():], space)
}

// oldBundle reports whether a text begins with what 'cosign sign-blob --bundle' wrote without --new-bundle-format.
func oldBundle(text []byte) bool {
	var b struct {
		Signature string `json:"base64Signature"`
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(&b) == nil && b.Signature != ""
}

// verify verifies the file of a release. Each signature that it has must be good, and of somebody who is trusted: one
// of the forms is enough, and of two neither makes up for the other. by names who signed.
func (t Trusted) verify(file []byte, now time.Time) (text []byte, by string, err error) {
	s, text, err := split(file)
	if err != nil {
		return nil, "", err
	}
	var names []string
	if s.ssh != nil {
		name, err := t.verifySSH(s.ssh, text, now)
		if err != nil {
			return nil, "", err
		}
		names = append(names, name)
	}
	if s.sigstore != nil {
		name, err := t.verifySigstore(s.sigstore, text)
		if err != nil {
			return nil, "", fmt.Errorf("its Sigstore bundle: %w", err)
		}
		names = append(names, name)
	}
	return text, strings.Join(names, " and "), nil
}

func (t Trusted) verifySSH(signature, text []byte, now time.Time) (string, error) {
	key, err := verify(signature, text)
	if err != nil {
		return "", err
	}
	return t.Keys.find(key, now)
}

func (t Trusted) verifySigstore(bundle, text []byte) (string, error) {
	if t.Sigstore == nil {
		return "", errors.New("no signer of Sigstore is trusted here")
	}
	sum := sha256.Sum256(text)
	return t.Sigstore.Verify(bundle, hex.EncodeToString(sum[:]))
}
