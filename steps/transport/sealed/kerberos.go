package sealed

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Flags of RFC 4121, 4.2.2, and the size of a header.
const (
	fromAcceptor   = 1
	confidential   = 2
	acceptorSubkey = 4
	headSize       = 16
)

// kerberos seals with the tokens of RFC 4121, 4.2.6.2. A signature is what stands before the message in a token.
type kerberos struct {
	key     types.EncryptionKey
	out, in way
	hmac    int // bytes
}

// way is what one side sends.
type way struct {
	flags  byte
	usage  uint32
	number uint64 // of the next one
}

// Agreed is what both sides of a login by Kerberos know after it.
type Agreed struct {
	Key            types.EncryptionKey
	Acceptor       bool   // it is the server's own subkey
	Client, Server uint32 // the first numbers of what they send
}

// Kerberos is the session of one side of a login.
func Kerberos(a Agreed, own Side) (*Session, error) {
	switch a.Key.KeyType {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128,
		etypeID.AES256_CTS_HMAC_SHA384_192:
	default: // older ones have other tokens
		return nil, fmt.Errorf("messages are encrypted with keys of AES only, and this login has type %d", a.Key.KeyType)
	}
	et, err := crypto.GetEtype(a.Key.KeyType)
	if err != nil {
		return nil, err
	}
	if n := len(a.Key.KeyValue); n != et.GetKeyByteSize() {
		return nil, fmt.Errorf("the session key has %d bytes, not %d", n, et.GetKeyByteSize())
	}
	flags := byte(confidential)
	if a.Acceptor {
		flags |= acceptorSubkey
	}
	k := &kerberos{key: a.Key, hmac: et.GetHMACBitLength() / 8,
		out: way{flags, keyusage.GSSAPI_INITIATOR_SEAL, uint64(a.Client)},
		in:  way{flags | fromAcceptor, keyusage.GSSAPI_ACCEPTOR_SEAL, uint64(a.Server)}}
	if own == Server {
		k.out, k.in = k.in, k.out
	}
	return &Session{k}, nil
}

// head is the header of the next token.
func (w *way) head() []byte {
	h := []byte{5, 4, w.flags, 0xff, 0, 0, 0, 0}
	h = binary.BigEndian.AppendUint64(h, w.number)
	w.number++
	return h
}

func (k *kerberos) seal(text []byte) (signature, covered []byte) {
	head := k.out.head()
	// The key has the right length, so that there is no error.
	data, _ := crypto.GetEncryptedData(append(bytes.Clone(text), head...), k.key, k.out.usage, 0)
	turned := headSize + k.hmac // so that the message comes last
	binary.BigEndian.PutUint16(head[6:], uint16(turned))
	cut := len(data.Cipher) - turned
	token := append(append(head, data.Cipher[cut:]...), data.Cipher[:cut]...)
	at := len(token) - len(text)
	return token[:at], token[at:]
}

func (k *kerberos) open(signature, covered []byte) ([]byte, error) {
	token := append(bytes.Clone(signature), covered...)
	if len(token) <= headSize+headSize+k.hmac {
		return nil, ErrBroken
	}
	head, data := token[:headSize], token[headSize:]
	extra, turned := int(binary.BigEndian.Uint16(head[4:])), int(binary.BigEndian.Uint16(head[6:]))%len(data)
	data = append(bytes.Clone(data[turned:]), data[:turned]...)
	text, err := crypto.DecryptMessage(data, k.key, k.in.usage)
	// The header is within, as it was before the token was turned.
	want := k.in.head()
	binary.BigEndian.PutUint16(want[4:], uint16(extra))
	if err != nil || len(text) < extra+headSize || !hmac.Equal(text[len(text)-headSize:], want) ||
		!bytes.Equal(head[:6], want[:6]) || !bytes.Equal(head[8:], want[8:]) {
		return nil, ErrBroken
	}
	return text[:len(text)-headSize-extra], nil
}
