package signature

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"encoding/asn1"

	"golang.org/x/crypto/cryptobyte"
	tags "golang.org/x/crypto/cryptobyte/asn1"
)

// timestamps is the extension with the timestamps of certificate logs (RFC 6962, 3.3).
var timestamps = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}

// certLogged verifies that a log of certificates has a certificate. A root without such logs does not ask for it.
func (r *Root) certLogged(cert, issuer *x509.Certificate) error {
	if len(r.certLogs) == 0 {
		return nil
	}
	for _, e := range cert.Extensions {
		if !e.Id.Equal(timestamps) {
			continue
		}
		before, err := withoutTimestamps(cert.RawTBSCertificate)
		if err != nil {
			return fmt.Errorf("its certificate cannot be read: %w", err)
		}
		var octets, list cryptobyte.String
		value := cryptobyte.String(e.Value)
		if !value.ReadASN1(&octets, tags.OCTET_STRING) || !octets.ReadUint16LengthPrefixed(&list) {
			return errors.New("the timestamps in its certificate cannot be read")
		}
		for !list.Empty() {
			var one cryptobyte.String
			if !list.ReadUint16LengthPrefixed(&one) {
				return errors.New("the timestamps in its certificate cannot be read")
			}
			if r.stamped(one, before, issuer) {
				return nil
			}
		}
	}
	return errors.New("no trusted log has its certificate")
}

// stamped reports whether a timestamp is of a trusted log and over a certificate as it was before it had any.
func (r *Root) stamped(stamp cryptobyte.String, before []byte, issuer *x509.Certificate) bool {
	var version, hash, algorithm uint8
	var id []byte
	var milliseconds uint64
	var extensions, sig cryptobyte.String
	if !stamp.ReadUint8(&version) || version != 0 || !stamp.ReadBytes(&id, sha256.Size) ||
		!stamp.ReadUint64(&milliseconds) || !stamp.ReadUint16LengthPrefixed(&extensions) ||
		!stamp.ReadUint8(&hash) || !stamp.ReadUint8(&algorithm) || !stamp.ReadUint16LengthPrefixed(&sig) {
		return false
	}
	l, ok := r.certLogs[base64.StdEncoding.EncodeToString(id)]
	const sha256WithECDSA = 4<<8 | 3 // RFC 5246, 7.4.1.4.1
	if !ok || int(hash)<<8|int(algorithm) != sha256WithECDSA || !l.has(time.UnixMilli(int64(milliseconds))) {
		return false
	}
	var b cryptobyte.Builder
	b.AddUint8(0) // version 1
	b.AddUint8(0) // certificate_timestamp
	b.AddUint64(milliseconds)
	b.AddUint16(1) // precert_entry
	key := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	b.AddBytes(key[:])
	b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(before) })
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(extensions) })
	text, err := b.Bytes()
	sum := sha256.Sum256(text)
	return err == nil && ecdsa.VerifyASN1(l.key, sum[:], sig)
}

// withoutTimestamps is the signed part of a certificate as the logs saw it.
func withoutTimestamps(tbs []byte) ([]byte, error) {
	bad := errors.New("it is not a certificate of version 3")
	in := cryptobyte.String(tbs)
	var fields cryptobyte.String
	if !in.ReadASN1(&fields, tags.SEQUENCE) {
		return nil, bad
	}
	extensionsTag := tags.Tag(3).ContextSpecific().Constructed()
	var kept, parts [][]byte
	for !fields.Empty() {
		var element cryptobyte.String
		var tag tags.Tag
		if !fields.ReadAnyASN1Element(&element, &tag) {
			return nil, bad
		}
		if tag != extensionsTag {
			parts = append(parts, element)
			continue
		}
		var outer, list cryptobyte.String
		if !element.ReadASN1(&outer, extensionsTag) || !outer.ReadASN1(&list, tags.SEQUENCE) {
			return nil, bad
		}
		for !list.Empty() {
			var one, inner cryptobyte.String
			var id asn1.ObjectIdentifier
			if !list.ReadASN1Element(&one, tags.SEQUENCE) {
				return nil, bad
			}
			whole := []byte(one)
			if !one.ReadASN1(&inner, tags.SEQUENCE) || !inner.ReadASN1ObjectIdentifier(&id) {
				return nil, bad
			}
			if !id.Equal(timestamps) {
				kept = append(kept, whole)
			}
		}
	}
	var b cryptobyte.Builder
	b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
		for _, p := range parts {
			b.AddBytes(p)
		}
		b.AddASN1(extensionsTag, func(b *cryptobyte.Builder) {
			b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
				for _, e := range kept {
					b.AddBytes(e)
				}
			})
		})
	})
	return b.Bytes()
}

// hexBytes reads a number of bytes in hex.
func hexBytes(text string, n int) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != n {
		return nil, fmt.Errorf("%q is not %d bytes in hex", text, n)
	}
	return b, nil
}
