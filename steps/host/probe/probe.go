// Package probe checks whether programs of this machine answer: over http, and over a pipe or socket, with or
// without a gRPC call. The caller provides the machine's way to connect to a pipe as a Dialer.
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// limit bounds a probe whose context does not end earlier.
const limit = 10 * time.Second

// pipeLimit bounds one connection to a pipe. It is short: a pipe that was opened
// while its server was starting may never answer, and a new connection does.
const pipeLimit = 3 * time.Second

// maxBody bounds what is read of an answer, in bytes.
const maxBody = 4 << 20

// Dialer connects to a pipe or socket of the machine.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// HTTP requests address, which must be on this machine, and returns the status code. A redirect is a
// response; no proxy is used. An error means that nothing answered.
func HTTP(ctx context.Context, address string) (int, error) {
	if err := checkOwn(address); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// checkOwn rejects an address of another machine.
func checkOwn(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if u.Scheme != "http" {
		return fmt.Errorf("%w: scheme %q, only http is supported", fs.ErrInvalid, u.Scheme)
	}
	if strings.EqualFold(u.Hostname(), "localhost") {
		return nil
	}
	ip := net.ParseIP(u.Hostname())
	if ip == nil {
		return fmt.Errorf("%w: %s is neither localhost nor an IP address", fs.ErrInvalid, u.Hostname())
	}
	if ip.IsLoopback() {
		return nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s is not an address of this machine", fs.ErrInvalid, ip)
}

// Unix connects to a unix socket, written as a path or with unix:// before it. A
// missing socket is fs.ErrNotExist.
func Unix(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
}

// Pipe connects to a pipe or socket and, with a grpcMethod (`/runtime.v1.RuntimeService/Version`), makes that
// call with an empty message and expects grpc-status 0.
func Pipe(ctx context.Context, dial Dialer, address, grpcMethod string) error {
	if grpcMethod != "" && !strings.HasPrefix(grpcMethod, "/") {
		return fmt.Errorf("%w: gRPC method %q", fs.ErrInvalid, grpcMethod)
	}
	ctx, cancel := context.WithTimeout(ctx, pipeLimit)
	defer cancel()
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	if grpcMethod == "" {
		return conn.Close()
	}
	conn = readFirst(conn)
	defer func() { _ = conn.Close() }()
	return call(ctx, conn, grpcMethod)
}

// eager is a connection that is read from the start, whoever writes first.
type eager struct {
	net.Conn
	in *io.PipeReader
}

// readFirst reads conn at once: on a named pipe without a buffer a write waits
// until the other side reads, and both sides of HTTP/2 begin with a write.
func readFirst(conn net.Conn) net.Conn {
	in, out := io.Pipe()
	go func() {
		_, err := io.Copy(out, conn)
		out.CloseWithError(err) // nil: io.EOF
	}()
	return &eager{conn, in}
}

func (e *eager) Read(b []byte) (int, error) { return e.in.Read(b) }

func (e *eager) Close() error {
	err := e.Conn.Close()
	return errors.Join(err, e.in.Close())
}

// call makes one unary gRPC call over conn (grpc.io, "gRPC over HTTP2"). The frame
// of an empty message is five zero bytes: not compressed, length 0.
func call(ctx context.Context, conn net.Conn, method string) error {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	once := make(chan net.Conn, 1)
	once <- conn
	transport := &http.Transport{Protocols: protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, fmt.Errorf("the connection was closed: %w", syscall.ECONNRESET)
			}
		}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+method,
		bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) // trailers come after the body
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d", method, resp.StatusCode)
	}
	status, message := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" { // a call without a response has its trailers in the header
		status, message = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if status != "0" {
		return &GRPCError{Method: method, Status: status, Message: message}
	}
	return nil
}

// GRPCError is an answer that is not OK.
type GRPCError struct {
	Method  string
	Status  string // number of the code; "" if the response had none
	Message string // as sent: percent-encoded
}

func (e *GRPCError) Error() string {
	return fmt.Sprintf("%s: grpc-status %q: %s", e.Method, e.Status, e.Message)
}
