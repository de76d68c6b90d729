package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"nodejoin/steps/host"
)

// tcpLimit bounds one connection to a machine that is far away or absent.
const tcpLimit = 5 * time.Second

// TCP connects to address, HOST:PORT, and sends nothing. Only a connection that was tried and failed is
// host.ErrNoAnswer.
func TCP(ctx context.Context, address string) error {
	if name, port, err := net.SplitHostPort(address); err != nil || name == "" || port == "" {
		return fmt.Errorf("%w: %q is not of the form HOST:PORT", fs.ErrInvalid, address)
	}
	limited, cancel := context.WithTimeoutCause(ctx, tcpLimit, fmt.Errorf("%w in %s", host.ErrNoAnswer, tcpLimit))
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(limited, "tcp", address)
	if err == nil {
		return conn.Close()
	}
	var dns *net.DNSError
	var call *os.SyscallError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("%w: %s", host.ErrNameUnknown, dns.Name)
	case errors.As(err, &dns):
		return err // the name server does not answer, which says nothing about the address
	case errors.As(err, &call) && strings.HasPrefix(call.Syscall, "connect"): // "connectex" on Windows
		return fmt.Errorf("%w: %w", host.ErrNoAnswer, call.Err)
	case limited.Err() != nil:
		return context.Cause(limited)
	}
	return err
}
