// Package probe checks whether programs of this machine answer: over http, and over a pipe or socket, with or
// without a gRPC call. The caller provides the machine's way to connect to a pipe as a Dialer.
package probe

import (
	"bytes"
	"context"
	"encoding/binary"
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
	if grpcMethod == "" {
		conn, err := dial(ctx, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	_, err := Unary(ctx, dial, address, grpcMethod, nil)
	return err
}

// Unary makes a unary gRPC call over a pipe or socket, with an encoded message, and returns that of the reply.
// A status other than 0 is a GRPCError.
func Unary(ctx context.Context, dial Dialer, address, method string, message []byte) ([]byte, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	conn = readFirst(conn)
	defer func() { _ = conn.Close() }()
	return call(ctx, conn, method, message)
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

// prefix of a message: a byte for "not compressed" and four with its length (grpc.io, "gRPC over HTTP2").
const prefix = 5

// call makes one unary gRPC call over conn.
func call(ctx context.Context, conn net.Conn, method string, message []byte) ([]byte, error) {
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
		bytes.NewReader(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxBody)) // trailers come after the body
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %d", method, resp.StatusCode)
	}
	status, text := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" { // a call without a response has its trailers in the header
		status, text = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if status != "0" {
		return nil, &GRPCError{Method: method, Status: status, Message: text}
	}
	if len(reply) < prefix || reply[0] != 0 ||
		uint64(binary.BigEndian.Uint32(reply[1:prefix])) != uint64(len(reply)-prefix) {
		return nil, fmt.Errorf("%s: the reply of %d bytes is not one message", method, len(reply))
	}
	return reply[prefix:], nil
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
