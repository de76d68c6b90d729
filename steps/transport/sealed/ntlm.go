package sealed

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // NTLM is made of it
	"crypto/rc4" //nolint:gosec // as md5
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"

	"golang.org/x/crypto/md4" //nolint:staticcheck,gosec // as md5
)

// Flags of MS-NLMP, 2.2.2.5.
const (
	Wanted      = 0x10 | 0x20 // NTLMSSP_NEGOTIATE_SIGN and SEAL: with both, messages can be sealed
	extended    = 0x80000     // NTLMSSP_NEGOTIATE_EXTENDED_SESSIONSECURITY
	strong      = 0x20000000  // NTLMSSP_NEGOTIATE_128
	keyExchange = 0x40000000  // NTLMSSP_NEGOTIATE_KEY_EXCH
)

// ntlm seals as MS-NLMP, 3.4 says.
type ntlm struct {
	out, in *direction
}

// direction are the messages of one side.
type direction struct {
	sign   []byte
	cipher *rc4.Cipher
	number uint32
	again  bool // checksums are encrypted, too
}

// NTLM is the session of one side of a login with an AUTHENTICATE_MESSAGE of NTLMv2.
func NTLM(authenticate []byte, password string, own Side) (*Session, error) {
	other := Client
	if own == Client {
		other = Server
	}
	key, flags, err := SessionKey(authenticate, password)
	if err != nil {
		return nil, err
	}
	if need := uint32(Wanted | extended | strong); flags&need != need {
		return nil, errors.New("the machine does not encrypt messages by NTLM")
	}
	side := func(way Side) *direction {
		derived := func(what string) []byte {
			sum := md5.Sum(append(bytes.Clone(key), //nolint:gosec // as md5
				"session key to "+string(way)+" "+what+" key magic constant\x00"...))
			return sum[:]
		}
		c, _ := rc4.NewCipher(derived("sealing")) //nolint:gosec // as md5; a key of 16 bytes is always taken
		return &direction{sign: derived("signing"), cipher: c, again: flags&keyExchange != 0}
	}
	return &Session{&ntlm{out: side(own), in: side(other)}}, nil
}

// SessionKey is the key that both sides of a login have (MS-NLMP, 3.3.2 and 3.4.5.1), and the flags that they agreed
// on.
func SessionKey(m []byte, password string) (key []byte, flags uint32, err error) {
	if len(m) < 64 {
		return nil, 0, errors.New("not an AUTHENTICATE_MESSAGE")
	}
	part := func(at int) []byte {
		l, o := int(binary.LittleEndian.Uint16(m[at:])), int(binary.LittleEndian.Uint32(m[at+4:]))
		if o > len(m) || l > len(m)-o {
			return nil
		}
		return m[o : o+l]
	}
	response, domain, user, random := part(20), part(28), part(36), part(52)
	if len(response) < 16 {
		return nil, 0, errors.New("no response of NTLMv2")
	}
	h := md4.New() //nolint:gosec // as md5
	_, _ = h.Write(wide(password))
	owner := append(wide(strings.ToUpper(narrow(user))), domain...)
	key = mac(mac(h.Sum(nil), owner), response[:16])
	flags = binary.LittleEndian.Uint32(m[60:])
	if flags&keyExchange != 0 {
		c, _ := rc4.NewCipher(key) //nolint:gosec // as md5; a key of 16 bytes is always taken
		key = make([]byte, len(random))
		c.XORKeyStream(key, random)
	}
	if len(key) != 16 {
		return nil, 0, errors.New("the session key has another length than 16 bytes")
	}
	return key, flags, nil
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

// signature is that of the next message (MS-NLMP, 2.2.2.9.2). The message has gone through the cipher before.
func (d *direction) signature(text []byte) []byte {
	number := binary.LittleEndian.AppendUint32(nil, d.number)
	d.number++
	sum := mac(d.sign, number, text)[:8]
	if d.again {
		d.cipher.XORKeyStream(sum, sum)
	}
	return append(append([]byte{1, 0, 0, 0}, sum...), number...)
}

func (n *ntlm) seal(text []byte) (signature, covered []byte) {
	covered = make([]byte, len(text))
	n.out.cipher.XORKeyStream(covered, text)
	return n.out.signature(text), covered
}

func (n *ntlm) open(signature, covered []byte) ([]byte, error) {
	text := make([]byte, len(covered))
	n.in.cipher.XORKeyStream(text, covered)
	if !hmac.Equal(signature, n.in.signature(text)) {
		return nil, ErrBroken
	}
	return text, nil
}
