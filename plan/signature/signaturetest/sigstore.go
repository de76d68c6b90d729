// Package signaturetest signs for tests as Sigstore and cosign do, with an authority and a log of its own.
package signaturetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strconv"
	"time"
)

// Sigstore is an authority, which gives certificates to identities, and a log of signatures.
type Sigstore struct {
	ca  *x509.Certificate
	key *ecdsa.PrivateKey // of ca
	log *ecdsa.PrivateKey
}

// life is that of a certificate.
const life = 10 * time.Minute

// epoch is when the authority and the log begin; it is before the clock of testing/synctest.
var epoch = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)

// object is one of JSON.
type object = map[string]any

// New returns a new instance, which nobody trusts yet.
func New() *Sigstore {
	s := &Sigstore{key: Key(), log: Key()}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: epoch, NotAfter: epoch.AddDate(100, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	raw := ok(x509.CreateCertificate(rand.Reader, c, c, s.key.Public(), s.key))
	s.ca = ok(x509.ParseCertificate(raw))
	return s
}

// ok returns a value. There is no error: everything is made here.
func ok[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("signaturetest: %v", err))
	}
	return v
}

// Root is its trusted_root.json.
func (s *Sigstore) Root() []byte {
	from := object{"start": epoch}
	return ok(json.Marshal(object{
		"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"tlogs": []object{{"baseUrl": "https://log.example", "publicKey": object{"rawBytes": public(s.log),
			"validFor": from}}},
		"certificateAuthorities": []object{{"validFor": from,
			"certChain": object{"certificates": []object{{"rawBytes": s.ca.Raw}}}}},
	}))
}

// Sign returns the bundle of a text that an identity, an email address, signs. Its certificate begins at a time, and
// the log takes the signature in later.
func (s *Sigstore) Sign(text []byte, identity, issuer string, at time.Time, later time.Duration) []byte {
	key := Key()
	c := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: at, NotAfter: at.Add(life),
		EmailAddresses: []string{identity}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8},
			Value: ok(asn1.MarshalWithParams(issuer, "utf8"))}}}
	raw := ok(x509.CreateCertificate(rand.Reader, c, s.ca, key.Public(), s.key))
	sum := sha256.Sum256(text)
	sig := ok(ecdsa.SignASN1(rand.Reader, key, sum[:]))
	entry := s.entry(sum[:], sig, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), at.Add(later))
	return bundle(object{"certificate": object{"rawBytes": raw}, "tlogEntries": []object{entry}}, sum[:], sig)
}

// entry is that of the log for a signature.
func (s *Sigstore) entry(sum, sig, cert []byte, at time.Time) object {
	body := ok(json.Marshal(object{"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": object{
		"data":      object{"hash": object{"algorithm": "sha256", "value": hex.EncodeToString(sum)}},
		"signature": object{"content": sig, "publicKey": object{"content": cert}}}}))
	const index = 7
	id := sha256.Sum256(public(s.log))
	promise := sha256.Sum256(ok(json.Marshal(object{"body": body, "integratedTime": at.Unix(),
		"logID": hex.EncodeToString(id[:]), "logIndex": index}))) // a map is written in the order of its names
	return object{"logIndex": strconv.Itoa(index), "logId": object{"keyId": id[:]},
		"kindVersion":       object{"kind": "hashedrekord", "version": "0.0.1"},
		"integratedTime":    strconv.FormatInt(at.Unix(), 10),
		"inclusionPromise":  object{"signedEntryTimestamp": ok(ecdsa.SignASN1(rand.Reader, s.log, promise[:]))},
		"canonicalizedBody": body}
}

// Key is a new key, as 'cosign generate-key-pair' makes it.
func Key() *ecdsa.PrivateKey {
	return ok(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

// PublicKey is the public part of a key in PEM, as cosign.pub.
func PublicKey(key *ecdsa.PrivateKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public(key)}))
}

// public is the public part of a key in DER.
func public(key *ecdsa.PrivateKey) []byte {
	return ok(x509.MarshalPKIXPublicKey(key.Public()))
}

// SignByKey returns the bundle of a text that a key signs, without an entry of a log.
func SignByKey(text []byte, key *ecdsa.PrivateKey) []byte {
	sum := sha256.Sum256(text)
	hint := sha256.Sum256(public(key))
	return bundle(object{"publicKey": object{"hint": base64.StdEncoding.EncodeToString(hint[:])}}, sum[:],
		ok(ecdsa.SignASN1(rand.Reader, key, sum[:])))
}

func bundle(material object, sum, sig []byte) []byte {
	return ok(json.Marshal(object{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": material, "messageSignature": object{
			"messageDigest": object{"algorithm": "SHA2_256", "digest": sum}, "signature": sig}}))
}
