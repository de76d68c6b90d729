package agent

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/transport/wire"
)

const (
	// reachBound bounds the connection to the controller: a firewall may drop it without a word, and the artifact is
	// sent in another way then.
	reachBound = 4 * time.Second
	// fetchSilence is how long the controller may send nothing.
	fetchSilence = time.Minute
)

// fetch fetches what is missing of an artifact from the controller. The bytes before it are there already.
func (b *blobs) fetch(ctx context.Context, req wire.BlobFetch) (wire.None, error) {
	if !req.Valid() {
		return wire.None{}, errBlobName
	}
	conn, err := reach(ctx, req)
	if err != nil {
		return wire.None{}, &steps.Error{Code: steps.CodeUnreachable, Summary: "the controller cannot be reached",
			Detail: err.Error()}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close() // everything was read
	}()
	f, err := b.openPart(req.Blob, req.Offset)
	if err != nil {
		return wire.None{}, err
	}
	want := req.Size - req.Offset
	n, err := io.CopyBuffer(f, io.LimitReader(&patient{conn}, want), make([]byte, 256<<10))
	if err == nil && n != want {
		err = fmt.Errorf("%d of %d bytes arrived: %w", n, want, io.ErrUnexpectedEOF)
	}
	return wire.None{}, errors.Join(err, f.Close())
}

// reach connects to the controller, whose certificate is the one that it named, and shows the token.
func reach(ctx context.Context, req wire.BlobFetch) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, reachBound)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // the certificate is the one that the controller named, or none
		VerifyConnection: func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			if hex.EncodeToString(sum[:]) != req.CertificateSHA256 {
				return errors.New("something else answers in its place")
			}
			return nil
		}}}
	conn, err := d.DialContext(ctx, "tcp", req.Addr)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, req.Token); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// patient reads from a connection that must not be silent for too long.
type patient struct{ net.Conn }

func (p *patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(fetchSilence)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}
