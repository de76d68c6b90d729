package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxMessage bounds one message, in bytes.
const MaxMessage = 256 << 20

// ErrTooLong says that a line is longer than its bound.
var ErrTooLong = errors.New("message is too long")

// Channel frames messages as lines of pure ASCII: characters outside of it are
// written as JSON escapes, so that a shell between both ends that re-encodes text
// does no harm; a carriage return before the end of a line is dropped on receipt.
// It is a channel.Channel of jrpc2.
type Channel struct {
	r *bufio.Reader
	w io.WriteCloser
	// Limit gives the bound of the message that is being read, in bytes; nil = MaxMessage.
	Limit func() int
}

// NewChannel reads messages from r and writes them to w.
func NewChannel(r io.Reader, w io.WriteCloser) *Channel {
	return &Channel{r: bufio.NewReaderSize(r, 64<<10), w: w}
}

// Send writes one message; its JSON holds no line feed.
func (c *Channel) Send(msg []byte) error {
	if bytes.IndexByte(msg, '\n') >= 0 {
		return errors.New("message holds a line feed")
	}
	_, err := c.w.Write(append(ASCII(msg), '\n'))
	return err
}

// Recv reads one message. A last line without its end is io.ErrUnexpectedEOF.
func (c *Channel) Recv() ([]byte, error) {
	var line []byte
	for {
		part, err := c.r.ReadSlice('\n')
		if limit := c.limit(); len(line)+len(part) > limit {
			return nil, fmt.Errorf("%w: over %d bytes", ErrTooLong, limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

func (c *Channel) limit() int {
	if c.Limit == nil {
		return MaxMessage
	}
	return c.Limit()
}

// Close closes the writing side.
func (c *Channel) Close() error { return c.w.Close() }

// ASCII writes the characters outside ASCII of a JSON text as \u escapes. The
// result has spare capacity or is a copy; msg is not changed.
func ASCII(msg []byte) []byte {
	out := make([]byte, 0, len(msg)+16)
	for len(msg) > 0 {
		if msg[0] < utf8.RuneSelf {
			out = append(out, msg[0])
			msg = msg[1:]
			continue
		}
		r, n := utf8.DecodeRune(msg)
		msg = msg[n:]
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
