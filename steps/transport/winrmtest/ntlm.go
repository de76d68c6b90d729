package winrmtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // NTLM is made of it (MS-NLMP 3.3.2)
	"crypto/rand"
	"crypto/rc4" //nolint:gosec // as md5
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"

	"nodejoin/steps/transport/sealed"

	"golang.org/x/crypto/md4" //nolint:staticcheck,gosec // as md5
)

// ntlm is the side of a server in NTLM (MS-NLMP) for one connection.
type ntlm struct {
	user, password       string
	bindings             []byte // of the server's certificate; nil = it has none
	strict               bool   // logins must have the bindings, and a MIC
	negotiate, challenge []byte
	nonce                []byte
}

// Flags of MS-NLMP, 2.2.2.5.
const (
	flagUnicode     = 0x1
	flagTarget      = 0x4
	flagNTLM        = 0x200
	flagAlways      = 0x8000
	flagDomain      = 0x10000
	flagExtended    = 0x80000
	flagTargetInfo  = 0x800000
	flag128         = 0x20000000
	flagKeyExchange = 0x40000000
)

// answer is the challenge to a message that begins a login.
func (n *ntlm) answer(negotiate []byte) ([]byte, error) {
	if len(negotiate) < 16 || !bytes.HasPrefix(negotiate, []byte("NTLMSSP\x00\x01\x00\x00\x00")) {
		return nil, errors.New("not a NEGOTIATE_MESSAGE")
	}
	n.negotiate, n.nonce = bytes.Clone(negotiate), make([]byte, 8)
	_, _ = rand.Read(n.nonce)
	target := wide("WINRMTEST")
	info := slices(av(2, target), av(1, target), av(4, wide("winrm.test")), av(3, wide("winrm.test")),
		av(7, make([]byte, 8)), av(0, nil))
	asked := binary.LittleEndian.Uint32(negotiate[12:])
	flags := uint32(flagUnicode|flagTarget|flagNTLM|flagAlways|flagDomain|flagExtended|flagTargetInfo|flag128) |
		asked&(flagKeyExchange|sealed.Wanted)
	m := slices([]byte("NTLMSSP\x00\x02\x00\x00\x00"), field(len(target), 56), le32(flags), n.nonce, make([]byte, 8),
		field(len(info), 56+len(target)), []byte{10, 0, 0x63, 0x45, 0, 0, 0, 15}, target, info)
	n.challenge = m
	return m, nil
}

// verify checks the message that ends a login.
func (n *ntlm) verify(m []byte) error {
	if len(m) < 88 || !bytes.HasPrefix(m, []byte("NTLMSSP\x00\x03\x00\x00\x00")) || n.challenge == nil {
		return errors.New("not an AUTHENTICATE_MESSAGE")
	}
	part := func(at int) []byte {
		l, o := int(binary.LittleEndian.Uint16(m[at:])), int(binary.LittleEndian.Uint32(m[at+4:]))
		if o < 0 || o+l > len(m) {
			return nil
		}
		return m[o : o+l]
	}
	response, domain, user, key := part(20), narrow(part(28)), narrow(part(36)), part(52)
	if len(response) < 48 {
		return errors.New("no response of NTLMv2")
	}
	if !strings.EqualFold(user, n.user) {
		return errors.New("unknown user")
	}
	h := md4.New() //nolint:gosec // as md5
	_, _ = h.Write(wide(n.password))
	owf := mac(h.Sum(nil), wide(strings.ToUpper(user)+domain))
	proof := mac(owf, n.nonce, response[16:])
	if !hmac.Equal(proof, response[:16]) {
		return errors.New("wrong password")
	}
	bindings := pair(response[44:], 10)
	if n.bindings != nil && bindings != nil && !hmac.Equal(bindings, n.bindings) || n.strict && bindings == nil {
		return errors.New("the login is not for this connection")
	}
	if flags := pair(response[44:], 6); len(flags) != 4 || binary.LittleEndian.Uint32(flags)&2 == 0 {
		if n.strict {
			return errors.New("no MIC")
		}
		return nil
	}
	session := mac(owf, proof)
	if binary.LittleEndian.Uint32(m[60:])&flagKeyExchange != 0 {
		c, err := rc4.NewCipher(session) //nolint:gosec // as md5
		if err != nil {
			return err
		}
		session = make([]byte, len(key))
		c.XORKeyStream(session, key)
	}
	blank := bytes.Clone(m)
	clear(blank[72:88])
	if !hmac.Equal(mac(session, n.negotiate, n.challenge, blank), m[72:88]) {
		return errors.New("the messages were changed on the way")
	}
	return nil
}

// pair is the value of a pair of the target information (MS-NLMP, 2.2.2.1); nil = there is none.
func pair(info []byte, want uint16) []byte {
	for len(info) >= 4 {
		id, l := binary.LittleEndian.Uint16(info), int(binary.LittleEndian.Uint16(info[2:]))
		if id == 0 || len(info) < 4+l {
			return nil
		}
		if id == want {
			return info[4 : 4+l]
		}
		info = info[4+l:]
	}
	return nil
}

// bindings are the channel bindings of a certificate that is signed with SHA-256 (MS-NLMP 2.2.2.1, RFC 5929, 4.1).
func bindings(der []byte) []byte {
	sum := sha256.Sum256(der)
	data := slices([]byte("tls-server-end-point:"), sum[:])
	hash := md5.Sum(slices(make([]byte, 16), le32(uint32(len(data))), data)) //nolint:gosec // as md5
	return hash[:]
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(md5.New, key)
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

func wide(s string) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

func narrow(b []byte) string {
	u := make([]uint16, len(b)/2)
	for i := range u {
		u[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(u))
}

func slices(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

func av(id uint16, value []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, id)
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(value))), value...)
}

// field is the length and place of what follows in a message.
func field(l, at int) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(l))
	b = binary.LittleEndian.AppendUint16(b, uint16(l))
	return binary.LittleEndian.AppendUint32(b, uint32(at))
}
