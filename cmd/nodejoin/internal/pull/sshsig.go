// Package pull lets a node follow a plan: releases of a plan, which are signed, and the run on the node that applies a
// new one to it.
package pull

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"nodejoin/plan/names"
)

// namespace is what a signature of a release is for. A signature of the same key for something else is none.
const namespace = names.ReleaseNamespace

// The parts of a signature of SSH (OpenSSH, PROTOCOL.sshsig).
const (
	magic     = "SSHSIG"
	sigBegins = "-----BEGIN SSH SIGNATURE-----\n"
	sigEnds   = "\n-----END SSH SIGNATURE-----\n"
	sigWidth  = 70 // characters of base64 in a line, as ssh-keygen writes it
)

// sshsig is what the signature has after magic.
type sshsig struct {
	Version                              uint32
	PublicKey, Namespace, Reserved, Hash string
	Signature                            string
}

// signedData is what is signed, after magic.
type signedData struct{ Namespace, Reserved, Hash, Sum string }

// algorithms are those of the keys and their signatures. Signatures with SHA-1 and DSA are not trusted.
var algorithms = map[string][]string{
	ssh.KeyAlgoED25519: {ssh.KeyAlgoED25519}, ssh.KeyAlgoECDSA256: {ssh.KeyAlgoECDSA256},
	ssh.KeyAlgoECDSA384: {ssh.KeyAlgoECDSA384}, ssh.KeyAlgoECDSA521: {ssh.KeyAlgoECDSA521},
	ssh.KeyAlgoSKED25519: {ssh.KeyAlgoSKED25519}, ssh.KeyAlgoSKECDSA256: {ssh.KeyAlgoSKECDSA256},
	ssh.KeyAlgoRSA: {ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
}

// dataOf is what a signature over a text signs.
func dataOf(text []byte, hash string) ([]byte, error) {
	var sum []byte
	switch hash {
	case "sha512":
		s := sha512.Sum512(text)
		sum = s[:]
	case "sha256":
		s := sha256.Sum256(text)
		sum = s[:]
	default:
		return nil, fmt.Errorf("the signature is over the hash %q, and only sha256 and sha512 are known", hash)
	}
	return append([]byte(magic), ssh.Marshal(signedData{Namespace: namespace, Hash: hash, Sum: string(sum)})...), nil
}

// sign returns the signature of a text, as ssh-keygen -Y sign makes it.
func sign(key ssh.Signer, text []byte) ([]byte, error) {
	const hash = "sha512"
	data, err := dataOf(text, hash)
	if err != nil {
		return nil, err
	}
	how := algorithms[key.PublicKey().Type()]
	if how == nil {
		return nil, fmt.Errorf("a key of the type %s cannot sign; use ed25519, ecdsa or rsa", key.PublicKey().Type())
	}
	able, ok := key.(ssh.AlgorithmSigner)
	if !ok {
		return nil, errors.New("the key cannot choose how it signs")
	}
	s, err := able.SignWithAlgorithm(rand.Reader, data, how[0])
	if err != nil {
		return nil, err
	}
	blob := base64.StdEncoding.EncodeToString(append([]byte(magic), ssh.Marshal(sshsig{Version: 1,
		PublicKey: string(key.PublicKey().Marshal()), Namespace: namespace, Hash: hash,
		Signature: string(ssh.Marshal(s))})...))
	var lines []string
	for line := range slices.Chunk([]byte(blob), sigWidth) {
		lines = append(lines, string(line))
	}
	return []byte(sigBegins + strings.Join(lines, "\n") + sigEnds), nil
}

// verify returns the key whose signature of a text this is.
func verify(armored, text []byte) (ssh.PublicKey, error) {
	inner, ok := bytes.CutPrefix(armored, []byte(sigBegins))
	if ok {
		inner, ok = bytes.CutSuffix(inner, []byte(sigEnds))
	}
	if !ok {
		return nil, errors.New("it has no whole signature of SSH")
	}
	blob, err := base64.StdEncoding.DecodeString(string(bytes.ReplaceAll(inner, []byte("\n"), nil)))
	if err != nil {
		return nil, errors.New("its signature is damaged")
	}
	rest, ok := bytes.CutPrefix(blob, []byte(magic))
	var s sshsig
	if !ok || ssh.Unmarshal(rest, &s) != nil || s.Version != 1 {
		return nil, errors.New("its signature is damaged, or of an unknown version")
	}
	if s.Namespace != namespace {
		return nil, fmt.Errorf("its signature is for %q, not for %q", s.Namespace, namespace)
	}
	key, err := ssh.ParsePublicKey([]byte(s.PublicKey))
	if err != nil {
		return nil, errors.New("the key of its signature is damaged")
	}
	var signature ssh.Signature
	if err := ssh.Unmarshal([]byte(s.Signature), &signature); err != nil {
		return nil, errors.New("its signature is damaged")
	}
	if !slices.Contains(algorithms[key.Type()], signature.Format) {
		return nil, fmt.Errorf("its signature is by %s with a key of the type %s, which is not trusted", signature.Format,
			key.Type())
	}
	data, err := dataOf(text, s.Hash)
	if err != nil {
		return nil, err
	}
	if key.Verify(data, &signature) != nil {
		return nil, errors.New("its signature does not match: the release was changed after it was signed")
	}
	return key, nil
}
