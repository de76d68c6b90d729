// Package sealed is the encryption of WinRM's messages over HTTP, by NTLM or Kerberos, in the multipart form of
// MS-WSMV, 2.2.9.1.
package sealed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Session seals the messages of one connection, in their order.
type Session struct{ by mechanism }

// mechanism is how messages are sealed.
type mechanism interface {
	seal(text []byte) (signature, covered []byte)
	// open has ErrBroken for what is not the next message of the other side.
	open(signature, covered []byte) ([]byte, error)
}

// Side is one of the two of a login; its text is part of the keys of what it sends.
type Side string

// The sides.
const (
	Client Side = "client-to-server"
	Server Side = "server-to-client"
)

// ContentType is that of sealed messages.
const ContentType = `multipart/encrypted;protocol="` + protocol + `";boundary="` + boundary + `"`

const (
	protocol = "application/HTTP-SPNEGO-session-encrypted" // of logins by Negotiate, with NTLM or Kerberos
	boundary = "Encrypted Boundary"
	octets   = "\tContent-Type: application/octet-stream\r\n"
)

// Is reports whether a message of this Content-Type is sealed.
func Is(contentType string) bool {
	return strings.HasPrefix(contentType, "multipart/encrypted") && strings.Contains(contentType, protocol)
}

// Pack seals a message.
func (s *Session) Pack(text []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "--%s\r\n\tContent-Type: %s\r\n"+
		"\tOriginalContent: type=application/soap+xml;charset=UTF-8;Length=%d\r\n--%s\r\n%s", boundary, protocol, len(text),
		boundary, octets)
	signature, covered := s.by.seal(text)
	_ = binary.Write(&b, binary.LittleEndian, uint32(len(signature))) // to memory
	b.Write(signature)
	b.Write(covered)
	fmt.Fprintf(&b, "--%s--\r\n", boundary)
	return b.Bytes()
}

// ErrBroken says that a message is not what the other side sealed, or not the next one.
var ErrBroken = errors.New("a message was not sealed by the other side of the login")

// Unpack opens a sealed message.
func (s *Session) Unpack(body []byte) ([]byte, error) {
	head, rest, ok := bytes.Cut(body, []byte(octets))
	rest, ended := bytes.CutSuffix(rest, []byte("--"+boundary+"--\r\n"))
	if !ok || !ended || len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
		return nil, ErrBroken
	}
	size := binary.LittleEndian.Uint32(rest)
	_, length, _ := strings.Cut(string(head), "Length=")
	length, _, _ = strings.Cut(length, "\r\n")
	text, err := s.by.open(rest[4:4+size], rest[4+size:])
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(length); err != nil || n != len(text) {
		return nil, ErrBroken
	}
	return text, nil
}
