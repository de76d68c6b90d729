package sealed_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/types"

	"nodejoin/steps/transport/sealed"
)

// TestKerberosBroken: a session opens the next message of the other side, and nothing else.
func TestKerberosBroken(t *testing.T) {
	const text, begin = "the answer", "octet-stream\r\n"
	side := func(own sealed.Side, key byte) *sealed.Session {
		s, err := sealed.Kerberos(sealed.Agreed{Key: types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96,
			KeyValue: bytes.Repeat([]byte{key}, 32)}, Acceptor: true, Client: 17, Server: 4711}, own)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// token changes the token in a packed message: after its length are flags, EC and RRC (RFC 4121, 4.2.6.2).
	token := func(change func([]byte)) func(client, server *sealed.Session) []byte {
		return func(_, server *sealed.Session) []byte {
			b := server.Pack([]byte(text))
			change(b[bytes.LastIndex(b, []byte(begin))+len(begin)+4:])
			return b
		}
	}
	for name, tt := range map[string]struct {
		message func(client, server *sealed.Session) []byte
		want    error
	}{
		"whole":   {token(func([]byte) {}), nil},
		"ID":      {token(func(b []byte) { b[1] = 5 }), sealed.ErrBroken},
		"flags":   {token(func(b []byte) { b[2] &^= 2 }), sealed.ErrBroken},
		"EC":      {token(func(b []byte) { b[5] = 1 }), sealed.ErrBroken},
		"EC, all": {token(func(b []byte) { b[4], b[5] = 0xff, 0xff }), sealed.ErrBroken},
		"RRC":     {token(func(b []byte) { b[7]++ }), sealed.ErrBroken},
		"no RRC":  {token(func(b []byte) { b[6], b[7] = 0, 0 }), sealed.ErrBroken},
		"number":  {token(func(b []byte) { b[15]++ }), sealed.ErrBroken},
		"text":    {token(func(b []byte) { b[70] ^= 1 }), sealed.ErrBroken},
		"short": {func(_, server *sealed.Session) []byte {
			b := server.Pack([]byte(text))
			at := bytes.LastIndex(b, []byte(begin)) + len(begin)
			binary.LittleEndian.PutUint32(b[at:], 16) // a header and nothing more
			return append(b[:at+4+16:at+4+16], "--Encrypted Boundary--\r\n"...)
		}, sealed.ErrBroken},
		"signature longer than the message": {func(_, server *sealed.Session) []byte {
			b := server.Pack([]byte(text))
			binary.LittleEndian.PutUint32(b[bytes.LastIndex(b, []byte(begin))+len(begin):], 1<<31)
			return b
		}, sealed.ErrBroken},
		"length": {func(_, server *sealed.Session) []byte {
			return bytes.Replace(server.Pack([]byte(text)), []byte("Length=10"), []byte("Length=11"), 1)
		}, sealed.ErrBroken},
		"twice": {func(client, server *sealed.Session) []byte {
			b := server.Pack([]byte(text))
			if _, err := client.Unpack(b); err != nil {
				t.Error(err)
			}
			return b
		}, sealed.ErrBroken},
		"not the next": {func(_, server *sealed.Session) []byte {
			server.Pack([]byte(text))
			return server.Pack([]byte(text))
		}, sealed.ErrBroken},
		"its own": {func(client, _ *sealed.Session) []byte { return client.Pack([]byte(text)) }, sealed.ErrBroken},
		"another key": {func(_, _ *sealed.Session) []byte {
			return side(sealed.Server, 'o').Pack([]byte(text))
		}, sealed.ErrBroken},
		"plain": {func(_, _ *sealed.Session) []byte { return []byte(text) }, sealed.ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			client := side(sealed.Client, 'k')
			have, err := client.Unpack(tt.message(client, side(sealed.Server, 'k')))
			if !errors.Is(err, tt.want) || err == nil && string(have) != text {
				t.Errorf("have %q, %v; want %v", have, err, tt.want)
			}
		})
	}
}
