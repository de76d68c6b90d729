//go:build windows

package windows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Microsoft/go-winio"

	"nodejoin/steps/host"
)

// probeTimeout bounds a probe whose context has no earlier end.
const probeTimeout = 10 * time.Second

// ProbeHTTP asks url, which must be of this machine, and gives the status code;
// a redirect is an answer and is not followed.
func (h *Host) ProbeHTTP(ctx context.Context, address string) (int, error) {
	const op = "probe"
	if err := ownAddress(address); err != nil {
		return 0, failed(op, address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, failed(op, address, err)
	}
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, failed(op, address, err)
	}
	return resp.StatusCode, failed(op, address, resp.Body.Close())
}

// ownAddress refuses a URL that would lead away from this machine.
func ownAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if u.Scheme != "http" {
		return fmt.Errorf("scheme %q: only http is probed", u.Scheme)
	}
	if strings.EqualFold(u.Hostname(), "localhost") {
		return nil
	}
	ip := net.ParseIP(u.Hostname())
	if ip == nil {
		return errors.New("the host is neither localhost nor an IP address")
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
	return errors.New("the address is not this machine's")
}

// ProbePipe connects to a named pipe or a unix socket and, with a grpcMethod,
// makes that call with an empty message.
func (h *Host) ProbePipe(ctx context.Context, address, grpcMethod string) error {
	const op = "probe"
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := dialPipe(ctx, address)
	if err != nil {
		return failed(op, address, err)
	}
	if grpcMethod == "" {
		return failed(op, address, conn.Close())
	}
	return failed(op, address, callGRPC(ctx, conn, grpcMethod))
}

func dialPipe(ctx context.Context, address string) (net.Conn, error) {
	address = strings.TrimPrefix(address, "npipe://")
	slashes := strings.ReplaceAll(address, "/", `\`)
	if strings.HasPrefix(slashes, `\\`) {
		return winio.DialPipeContext(ctx, slashes)
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
}

// callGRPC makes one unary call with an empty message over conn and closes it.
// The frame of an empty message is five zero bytes: not compressed, length 0.
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
func callGRPC(ctx context.Context, conn net.Conn, method string) error {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:   protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	defer conn.Close()
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+method, bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d", method, resp.StatusCode)
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<20)); err != nil {
		return err
	}
	status, message := resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
	if status == "" { // a failed call may have its trailers in the header
		status, message = resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message")
	}
	if status != "0" {
		return fmt.Errorf("%s: gRPC status %q: %s", method, status, message)
	}
	return nil
}

var _ host.Reader = (*Host)(nil)
