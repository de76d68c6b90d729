package wsman

import (
	"encoding/base64"
	"io"
	"sync"
)

// message is a message to a machine. The zero value has no bytes.
type message struct {
	head  []byte
	input []byte // in the message it is in base64
	tail  []byte
}

func (m message) size() int {
	return len(m.head) + base64.StdEncoding.EncodedLen(len(m.input)) + len(m.tail)
}

func (m message) bytes() []byte {
	b := make([]byte, m.size())
	n := copy(b, m.head)
	n += encode(b[n:], m.input)
	copy(b[n:], m.tail)
	return b
}

// stream reads a message. It encodes the input into the buffers of its reader, so that the message is never in memory
// as a whole.
type stream struct {
	message
	gone chan struct{} // closed with it
	once sync.Once
}

func newStream(m message) *stream { return &stream{message: m, gone: make(chan struct{})} }

func (s *stream) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = s.some(p[n:])
		n += k
	}
	if n > 0 {
		err = nil
	}
	return n, err
}

// some reads what is next in one of the parts.
func (s *stream) some(p []byte) (n int, err error) {
	switch whole := len(p) / 4 * 3; {
	case len(s.head) > 0:
		n = copy(p, s.head)
		s.head = s.head[n:]
	case len(s.input) > 0 && whole > 0:
		part := s.input[:min(whole, len(s.input))]
		n, s.input = encode(p, part), s.input[len(part):]
	case len(s.input) > 0: // p takes a part of four letters only
		part := s.input[:min(3, len(s.input))]
		s.head, s.input = base64.StdEncoding.AppendEncode(nil, part), s.input[len(part):]
	case len(s.tail) > 0:
		n = copy(p, s.tail)
		s.tail = s.tail[n:]
	default:
		err = io.EOF
	}
	return n, err
}

func (s *stream) Close() error {
	s.once.Do(func() { close(s.gone) })
	return nil
}
