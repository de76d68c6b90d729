package probe

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"testing"

	"nodejoin/steps/host"
)

// TestTCP: only a connection that was tried is an answer, or none.
func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := TCP(t.Context(), address); err != nil {
		t.Errorf("a listener: %v", err)
	}
	l.Close()
	if err := TCP(t.Context(), address); !errors.Is(err, host.ErrNoAnswer) {
		t.Errorf("no listener: %v", err)
	}
	for _, bad := range []string{"", "proxy.example", ":3128", "http://proxy.example:3128"} {
		if err := TCP(t.Context(), bad); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fs.ErrClosed)
	if err := TCP(ctx, address); !errors.Is(err, fs.ErrClosed) || errors.Is(err, host.ErrNoAnswer) {
		t.Errorf("cancelled: %v", err)
	}
}
