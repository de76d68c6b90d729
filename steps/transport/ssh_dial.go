package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// defaultTimeout bounds connecting and logging in.
const defaultTimeout = 30 * time.Second

// way is the chain of SSH clients to a machine; over SSH, the last one is the machine's.
type way struct {
	clients []*ssh.Client
	names   []string // of the servers that clients are logged in to
	name    string   // "Administrator@10.0.0.21:22"
	user    string   // of the last
	target  string   // address and port of the last, as they were written
	near    bool     // a round trip to the last takes less than paceNear
}

func (w *way) last() *ssh.Client { return w.clients[len(w.clients)-1] }

// close ends all connections without waiting for an answer of anyone: the
// outermost first, so that nothing is written through it any more.
func (w *way) close() {
	for _, c := range w.clients {
		_ = c.Close()
	}
}

// blameBound is how long a jump host may take to show that it is there.
const blameBound = 2 * time.Second

// blame adds to the error of a lost connection which of the first n servers, the jump hosts, has ended its
// connection or does not answer; that is none where the machine itself did, or where this side has ended it, as life
// says. begin runs what ends with the connection.
func (w *way) blame(life context.Context, begin func(func()), err error, n int) error {
	for i, client := range w.clients[:n] {
		answer := make(chan error, 1)
		begin(func() {
			_, _, err := client.SendRequest(keepAliveRequest, true, nil)
			answer <- err
		})
		did := fmt.Sprintf("does not answer within %s", blameBound)
		late := time.NewTimer(blameBound)
		select {
		case gone := <-answer:
			late.Stop()
			if gone == nil {
				continue
			}
			did = "ended the connection"
		case <-life.Done():
			late.Stop()
		case <-late.C:
		}
		if life.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: jump host %d of %d, %s, %s", err, i+1, n, w.names[i], did)
	}
	return err
}

// dialWay connects and logs in, through the jump hosts, within c.Timeout.
func dialWay(ctx context.Context, c SSHConfig) (*way, error) {
	ctx, cancel := within(ctx, c.Timeout)
	defer cancel()
	hops, err := c.hops()
	if err != nil {
		return nil, unusable(c.Host, err)
	}
	last := hops[len(hops)-1]
	w := &way{name: last.name(), user: last.user, target: last.addr()}
	if err := w.dial(ctx, c, hops, len(hops)); err != nil {
		return nil, err
	}
	return w, nil
}

// TrySSH connects and logs in to a machine, as DialSSH does, and hangs up.
func TrySSH(ctx context.Context, c SSHConfig) error {
	w, err := dialWay(ctx, c)
	if err != nil {
		return cleaned(err)
	}
	w.close()
	return nil
}

// within bounds connecting and logging in; 0 = defaultTimeout.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
}

func unusable(host string, err error) error {
	return &ConnectError{Reason: ReasonKey, Host: host, Summary: "the SSH configuration cannot be used",
		Detail: err.Error(), Remedy: "fix ~/.ssh/config, or set host, port, user and jump in the connection", Err: err}
}

// dial connects and logs in to the first n hops, one through the other.
func (w *way) dial(ctx context.Context, c SSHConfig, hops []hop, n int) error {
	for i, h := range hops[:n] {
		client, err := w.dialHop(ctx, c, h)
		if err != nil {
			w.close()
			return placed(err, hops, i)
		}
		w.clients, w.names = append(w.clients, client), append(w.names, h.name())
	}
	return nil
}

// placed says of an error of connecting to hops[i] where on the way it happened. That a jump host does not
// forward is its own error, and not one of the server behind it.
func placed(err error, hops []hop, i int) error {
	var ce *ConnectError
	if !errors.As(err, &ce) || len(hops) == 1 {
		return err
	}
	var refused *ssh.OpenChannelError
	switch through := i > 0 && errors.As(ce.Err, &refused); {
	case through && (refused.Reason == ssh.Prohibited || refused.Reason == ssh.UnknownChannelType):
		next := hops[i].addr()
		i--
		ce.Reason, ce.Host, ce.Summary = ReasonForward, hops[i].name(), "the jump host does not forward"
		ce.Detail = fmt.Sprintf("it refuses to connect to %s: %v", next, refused)
		ce.Remedy = "allow it in the jump host's sshd_config (AllowTcpForwarding, PermitOpen, DisableForwarding) and " +
			"for the key in its authorized_keys, or go another way with jump"
	case through:
		ce.Detail = fmt.Sprintf("%s cannot connect to it: %v", hops[i-1].name(), refused)
	}
	place := "behind " + hops[len(hops)-2].name()
	if i < len(hops)-1 {
		place = fmt.Sprintf("jump host %d of %d on the way to %s", i+1, len(hops)-1, hops[len(hops)-1].name())
	}
	ce.Detail = place + ": " + ce.Detail
	return err
}

// dialHop makes the connection to one server. Where a pinned fingerprint does not
// say of which kind the key is, the server's other keys are asked for as well.
func (w *way) dialHop(ctx context.Context, c SSHConfig, h hop) (*ssh.Client, error) {
	keys, err := newHostKeys(c, h)
	if err != nil {
		return nil, err
	}
	l, err := newLogin(ctx, c, h)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var first error
	for {
		client, err := w.handshake(ctx, h, keys, l)
		var ce *ConnectError
		if errors.As(err, &ce) && ce.Reason == ReasonHostKey && keys.pin != "" && keys.pinKey == nil && keys.seen != nil {
			if first == nil {
				first = err
			}
			keys.algorithms = without(keys.algorithms, keys.seen.Type())
			keys.seen = nil
			if len(keys.algorithms) > 0 {
				continue
			}
		}
		if err != nil && first != nil {
			return nil, first
		}
		return client, err
	}
}

// connect opens the byte stream to the next server.
func (w *way) connect(ctx context.Context, h hop) (net.Conn, error) {
	if len(w.clients) > 0 {
		return w.last().DialContext(ctx, "tcp", h.addr())
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.addr())
	if err != nil {
		return nil, err
	}
	return quickAck(conn), nil
}

func (w *way) handshake(ctx context.Context, h hop, keys *hostKeys, l *login) (*ssh.Client, error) {
	begun := time.Now()
	conn, err := w.connect(ctx, h)
	if err != nil {
		return nil, unreachable(ctx, h, err)
	}
	connecting := time.Since(begun)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	sc, channels, requests, err := ssh.NewClientConn(conn, h.addr(), &ssh.ClientConfig{
		User: h.user, Auth: l.methods, AuthCallback: l.next,
		HostKeyCallback: keys.check, HostKeyAlgorithms: keys.algorithms,
		ClientVersion: "SSH-2.0-nodejoin",
	})
	if !stop() && err == nil {
		_ = sc.Close()
		return nil, unreachable(ctx, h, context.Cause(ctx))
	}
	if err == nil {
		w.near = roundTrip(conn, connecting) < paceNear
		return ssh.NewClient(sc, channels, requests), nil
	}
	_ = conn.Close()
	var ce *ConnectError
	var ne *ssh.AlgorithmNegotiationError
	switch {
	case errors.As(err, &ce):
		return nil, ce
	case ctx.Err() != nil:
		return nil, unreachable(ctx, h, err)
	case errors.As(err, &ne) && ne.What == "host key" && keys.seen == nil:
		return nil, keys.noCommon(ne)
	case l.asked:
		return nil, l.refused(err)
	}
	return nil, unreachable(ctx, h, err)
}

// unreachable is the error of a server that does not answer as one; the cause of a
// cancelled ctx is passed on as it is.
func unreachable(ctx context.Context, h hop, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	remedy := "check the address, the firewall, and that the machine's SSH server runs"
	if lookup := (*net.DNSError)(nil); errors.As(err, &lookup) && lookup.IsNotFound {
		remedy = "the name does not resolve: check its spelling, or write the address of the machine"
	}
	return &ConnectError{Reason: ReasonUnreachable, Host: h.name(), Summary: "no connection", Detail: err.Error(),
		Remedy: remedy, Err: err}
}

// keepAliveRequest is a request to a server. Any answer will do; most servers do not know it.
const keepAliveRequest = "keepalive@openssh.com"

// keepAlive sends a request every interval and calls lost after two without an answer; each is called with
// every request. It returns when ctx ends or the connection does; a request that is under
// way ends with the connection.
func keepAlive(ctx context.Context, client *ssh.Client, interval time.Duration, each func(), lost func(error)) {
	answers := make(chan error, 1)
	waiting, missed := false, 0
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-answers:
			if err != nil {
				return // ended; whoever reads from it sees so
			}
			waiting, missed = false, 0
		case <-t.C:
			if waiting {
				if missed++; missed >= 2 {
					lost(fmt.Errorf("no sign of life for %s", 2*interval))
					return
				}
				continue
			}
			waiting = true
			go func() {
				each()
				_, _, err := client.SendRequest(keepAliveRequest, true, nil)
				answers <- err
			}()
		}
	}
}
