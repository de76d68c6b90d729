package transport

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"nodejoin/steps/transport/wire"
)

// cutOutput takes nothing.
type cutOutput struct{}

func (cutOutput) Write([]byte) (int, error) { return 0, syscall.EPIPE }
func (cutOutput) Close() error              { return nil }

// TestUnsent: a call that cannot be sent is a lost connection, and says nothing about what the machine answers, even
// where the other direction does not know of it yet.
func TestUnsent(t *testing.T) {
	in, end := io.Pipe()
	c := newRPC(in, cutOutput{}, func(error) {}, "")
	defer func() {
		_ = end.Close()
		c.close()
	}()
	err := c.call(t.Context(), wire.MethodBlobEnd, wire.Bound{}, wire.Blob{}, &wire.None{})
	if !errors.Is(err, ErrDropped) || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v, want ErrDropped with what the system says", err)
	}
}
