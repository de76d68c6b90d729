package wsman

import (
	"crypto"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // NTLM is made of it
	"crypto/x509"
	"encoding/binary"
	"errors"

	"github.com/Azure/go-ntlmssp"

	"nodejoin/steps/transport/sealed"
)

// Pairs of a challenge's target information (MS-NLMP, 2.2.2.1).
const (
	pairEnd      = 0
	pairFlags    = 6
	pairBindings = 10

	hasMIC = 2 // in the value of pairFlags
)

// Places in messages (MS-NLMP, 2.2.1.2 and 2.2.1.3).
const (
	targetInfoAt = 40 // in a CHALLENGE_MESSAGE
	payloadAt    = 64 // in an AUTHENTICATE_MESSAGE without a version and a MIC, as the library writes it
	micAt        = 72
	headSize     = 88
)

// authenticate is the AUTHENTICATE_MESSAGE that answers a challenge. It has a MIC, so that nobody between can change
// the three messages, and with cert, the machine's certificate, it counts on a connection to that machine only.
func authenticate(negotiate, challenge []byte, user, password string, cert *x509.Certificate) ([]byte, error) {
	info, ok := field(challenge, targetInfoAt)
	if !ok {
		return nil, errors.New("not a CHALLENGE_MESSAGE")
	}
	if len(info) == 0 { // of servers before NTLMv2: there is nowhere to say that there is a MIC
		return ntlmssp.NewAuthenticateMessage(challenge, user, password, nil)
	}
	pairs, err := withPairs(info, cert)
	if err != nil {
		return nil, err
	}
	// The library answers with the pairs of the challenge.
	said := append(append([]byte(nil), challenge...), pairs...)
	putField(said, targetInfoAt, len(pairs), len(challenge))
	short, err := ntlmssp.NewAuthenticateMessage(said, user, password, nil)
	if err != nil {
		return nil, err
	}
	m := append(append([]byte(nil), short[:payloadAt]...), make([]byte, headSize-payloadAt)...)
	m = append(m, short[payloadAt:]...)
	for at := 12; at < 52; at += 8 {
		b := m[at+4:]
		binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)+headSize-payloadAt)
	}
	key, _, err := sealed.SessionKey(m, password)
	if err != nil {
		return nil, err
	}
	mic := hmac.New(md5.New, key)
	for _, message := range [][]byte{negotiate, challenge, m} {
		_, _ = mic.Write(message)
	}
	copy(m[micAt:headSize], mic.Sum(nil))
	return m, nil
}

// withPairs are the pairs of a challenge with those of its answer.
func withPairs(info []byte, cert *x509.Certificate) ([]byte, error) {
	var out []byte
	flags := uint32(hasMIC)
	for {
		if len(info) < 4 {
			return nil, errors.New("the challenge's target information has no end")
		}
		id, n := binary.LittleEndian.Uint16(info), int(binary.LittleEndian.Uint16(info[2:]))
		if id == pairEnd {
			break
		}
		if len(info) < 4+n {
			return nil, errors.New("the challenge's target information is cut off")
		}
		switch value := info[4 : 4+n]; {
		case id == pairFlags && n == 4:
			flags |= binary.LittleEndian.Uint32(value)
		case id != pairFlags && id != pairBindings:
			out = append(out, info[:4+n]...)
		}
		info = info[4+n:]
	}
	out = appendPair(out, pairFlags, binary.LittleEndian.AppendUint32(nil, flags))
	if bindings := channelBindings(cert); bindings != nil {
		out = appendPair(out, pairBindings, bindings)
	}
	return appendPair(out, pairEnd, nil), nil
}

func appendPair(b []byte, id uint16, value []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, id)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

// channelBindings ties a login to the TLS connection with a certificate (RFC 5929, 4.1: tls-server-end-point), as the
// MD5 of a gss_channel_bindings_struct (MS-NLMP, 2.2.2.1); nil = there is none for it.
func channelBindings(cert *x509.Certificate) []byte {
	if cert == nil {
		return nil
	}
	sum := crypto.SHA256 // also for certificates that are signed with MD5 or SHA-1
	switch cert.SignatureAlgorithm {
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384, x509.SHA384WithRSAPSS:
		sum = crypto.SHA384
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512, x509.SHA512WithRSAPSS:
		sum = crypto.SHA512
	case x509.PureEd25519, x509.UnknownSignatureAlgorithm: // which hash it is, is not defined
		return nil
	}
	h := sum.New()
	_, _ = h.Write(cert.Raw)
	return bindingsOf(h.Sum(nil))
}

func bindingsOf(sum []byte) []byte {
	const prefix = "tls-server-end-point:"
	b := make([]byte, 16) // no addresses: their types and lengths
	b = binary.LittleEndian.AppendUint32(b, uint32(len(prefix)+len(sum)))
	b = append(append(b, prefix...), sum...)
	bindings := md5.Sum(b) //nolint:gosec // NTLM is made of it
	return bindings[:]
}

// field is what a field of a message stands for; ok is false where it is not within the message.
func field(m []byte, at int) (value []byte, ok bool) {
	if len(m) < at+8 {
		return nil, false
	}
	n, from := uint64(binary.LittleEndian.Uint16(m[at:])), uint64(binary.LittleEndian.Uint32(m[at+4:]))
	if n == 0 {
		return nil, true
	}
	if from+n > uint64(len(m)) {
		return nil, false
	}
	return m[from : from+n], true
}

func putField(m []byte, at, n, from int) {
	binary.LittleEndian.PutUint16(m[at:], uint16(n))
	binary.LittleEndian.PutUint16(m[at+2:], uint16(n))
	binary.LittleEndian.PutUint32(m[at+4:], uint32(from))
}
