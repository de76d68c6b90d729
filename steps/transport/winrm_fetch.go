package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/transport/wire"
)

// supplier is a port of the controller from which the agent fetches one artifact, or curl.exe the agent. It is open on
// the address that the connection comes from, for the machine's address only, and has a certificate of its own.
type supplier struct {
	listener *net.TCPListener
	config   *tls.Config
	pin      string // SHA-256 of the certificate, lower-case hex
	keyPin   string // the same of its public key, as curl takes it
	machine  netip.Addr
}

func newSupplier(ctx context.Context, local, remote netip.AddrPort) (*supplier, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1)} // the agent compares its digest, and nothing else in it
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(local.Addr(), 0).String())
	if err != nil {
		return nil, err
	}
	sum, keySum := sha256.Sum256(der), sha256.Sum256(public)
	return &supplier{listener: l.(*net.TCPListener), pin: hex.EncodeToString(sum[:]), machine: remote.Addr().Unmap(),
		keyPin: "sha256//" + base64.StdEncoding.EncodeToString(keySum[:]),
		config: &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}, nil
}

// supply sends the bytes of r once, to the client that shows the token.
func (s *supplier) supply(ctx context.Context, token string, r io.Reader) error {
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	for {
		conn, err := s.listener.AcceptTCP()
		if err != nil {
			return err
		}
		if t := s.admit(ctx, conn, token); t != nil {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			_, err := io.CopyBuffer(struct{ io.Writer }{t}, r, make([]byte, 256<<10))
			err = errors.Join(err, t.Close())
			stop()
			return err
		}
		_ = conn.Close()
	}
}

// showBound bounds what comes before an artifact is sent.
const showBound = 10 * time.Second

// admit returns a connection whose client shows the token, else nil.
func (s *supplier) admit(ctx context.Context, conn *net.TCPConn, token string) *tls.Conn {
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || from.Addr().Unmap() != s.machine {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, showBound)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	t := tls.Server(conn, s.config)
	shown := make([]byte, len(token))
	if _, err := io.ReadFull(t, shown); err != nil || subtle.ConstantTimeCompare(shown, []byte(token)) != 1 {
		return nil
	}
	return t
}

// upload is an artifact on its way to the machine.
type upload struct {
	src   steps.Source
	blob  wire.Blob
	from  int64 // bytes that are there already
	meter *meter
}

// errNotFetched says that the artifact has to be sent in another way.
var errNotFetched = errors.New("the machine does not reach the controller")

// fetched has the agent fetch what the machine does not have of an artifact yet. Where it cannot connect to the
// controller, that is errNotFetched, also for all later artifacts.
func (s *winrmConn) fetched(ctx context.Context, u *upload) error {
	local, remote, direct := s.path.ends()
	if !direct || s.unreached {
		return errNotFetched
	}
	from, err := newSupplier(ctx, local, remote)
	if err != nil {
		return errNotFetched
	}
	defer func() { _ = from.listener.Close() }()
	token := rand.Text() + rand.Text()
	serving, over := context.WithCancel(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = from.supply(serving, token, u.meter) // the machine's answer counts
	}()
	err = s.own(ctx, wire.MethodBlobFetch, wire.BlobFetch{Blob: u.blob, Offset: u.from, Token: token,
		Addr: from.listener.Addr().String(), CertificateSHA256: from.pin}, &wire.None{})
	over()
	<-served
	var failed *steps.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case u.meter.err != nil:
		return fmt.Errorf("read %s: %w", u.src.File, u.meter.err)
	case errors.As(err, &failed):
		s.unreached = true
		return errNotFetched
	}
	return err
}
