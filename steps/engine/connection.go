package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// dropped reports whether err says that the connection was lost.
func dropped(err error) bool { return errors.Is(err, transport.ErrDropped) }

// unreachable reports whether err says that the host does not answer.
func unreachable(err error) bool {
	var ce *transport.ConnectError
	return errors.As(err, &ce) && ce.Reason == transport.ReasonUnreachable
}

// reconnectFor bounds the time in which a lost connection is tried again.
const reconnectFor = 2 * time.Minute

// reconnect connects again, with backoff, while the host does not answer; a refusal ends
// it at once. Then the run is in the given state again.
func (h *hostRun) reconnect(ctx context.Context, cause error, state string) error {
	h.disconnect()
	h.state("reconnecting", cause.Error())
	var err error
	h.awaits(func() { err = h.connectAgain(ctx) })
	if err == nil {
		h.state(state, "")
	}
	return err
}

// connectAgain connects, and locks the host if it was locked, for up to reconnectFor.
func (h *hostRun) connectAgain(ctx context.Context) error {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 200*time.Millisecond, 10*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := h.connect(ctx)
		if err == nil && h.holds {
			if err = h.lock(ctx); err != nil {
				if !dropped(err) {
					return struct{}{}, backoff.Permanent(err)
				}
				h.disconnect()
			}
		}
		var ce *transport.ConnectError
		if errors.As(err, &ce) && !unreachable(err) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(reconnectFor))
	return err
}

// retryDropped makes a call over the host's connection; a lost one is made again.
func retryDropped[T any](ctx context.Context, h *hostRun, state string, call func() (T, error)) (out T, err error) {
	if err = h.connect(ctx); err != nil {
		return out, err
	}
	h.state(state, "")
	out, err = call()
	for drops := 1; err != nil && dropped(err) && ctx.Err() == nil && drops <= maxDrops; drops++ {
		if err = h.reconnect(ctx, err, state); err == nil {
			out, err = call()
		}
	}
	return out, err
}

// ask makes a call over the host's connection, which emits into the run's events. A lost
// connection is made again, and the call repeated.
func ask[Req, Reply any](ctx context.Context, h *hostRun, state string, call wire.Call[Req, Reply], req Req) (Reply,
	error) {
	return retryDropped(ctx, h, state, func() (Reply, error) { return do(ctx, h, call, req, h.emit) })
}

// do makes a call over the host's connection, see transport.Do; its errors name the host.
func do[Req, Reply any](
	ctx context.Context, h *hostRun, call wire.Call[Req, Reply], req Req, emit func(event.Event),
) (Reply, error) {
	reply, err := transport.Do(ctx, h.conn, call, req, emit)
	var ce *transport.ConnectError
	if errors.As(err, &ce) && ce.Host == "" {
		ce.Host = h.node.Name
	}
	return reply, err
}

// maxDrops bounds the losses in a row without any step done in between.
const maxDrops = 5

// lock locks the connected host. It waits for a run that has ended, for this run's own lost connection, and
// for the healing after a boot; any other lock holder is an error at once.
func (h *hostRun) lock(ctx context.Context) error {
	reply, err := h.conn.Lock(ctx, steps.LockRequest{Holder: h.opt.Holder})
	if err == nil && reply.By != nil && (reply.By.Run == h.opt.Holder.Run || h.gone(*reply.By)) {
		h.state("waiting", "for the lock of a run whose connection was lost: "+reply.By.String())
		if reply, err = h.conn.Lock(ctx, steps.LockRequest{Holder: h.opt.Holder, Wait: lostFor}); err == nil &&
			reply.By == nil {
			h.state("applying", "")
		}
	}
	if err == nil && reply.By != nil && reply.By.Command == steps.BootCommand {
		h.state("waiting", "for the machine to be in order after its boot: "+reply.By.String())
		if reply, err = h.conn.Lock(ctx, steps.LockRequest{Holder: h.opt.Holder, Wait: healFor}); err == nil &&
			reply.By == nil {
			h.state("applying", "")
		}
	}
	var ce *transport.ConnectError
	switch {
	case errors.As(err, &ce) && ce.Host == "":
		ce.Host = h.node.Name
		return ce
	case err != nil:
		return err
	case reply.By != nil:
		return steps.Locked("the machine "+h.node.Name, *reply.By)
	}
	h.locked(reply)
	return nil
}

// locked notes that the host is locked, and reports an earlier run that did not end.
func (h *hostRun) locked(reply steps.LockReply) {
	h.lockNext = false
	switch {
	case reply.Left != nil && h.report.Facts.BootTime.After(reply.Left.Since):
		h.emit(event.Warning{Host: h.node.Name, Summary: notEnded, Detail: reply.Left.String() +
			"; the machine has restarted since then" + goesOn})
	case reply.Left != nil && h.firstOf(*reply.Left):
		h.emit(event.Warning{Host: h.node.Name, Summary: notEnded, Detail: reply.Left.String() + goesOn})
	}
}

// hold locks the host for this run. A connection that is lost meanwhile, or was ended by park, is made again.
func (h *hostRun) hold(ctx context.Context) error {
	err := h.connect(ctx)
	h.holds = h.opt.Holder.Run != ""
	if err == nil && h.holds {
		err = h.lock(ctx)
	}
	if err != nil && (dropped(err) || h.parked && unreachable(err)) && ctx.Err() == nil {
		err = h.reconnect(ctx, err, "applying") // it locks
	}
	if err != nil {
		h.holds = false
	}
	return err
}

const (
	// lostFor is how long the agent of a lost connection may still hold a machine: its own bound of silence
	// is a minute.
	lostFor = 90 * time.Second
	// leaseFor is how long a Lease holds without being renewed. A difference of the
	// clocks of two controllers that is smaller than leaseFor-renewEvery does no harm.
	leaseFor   = 2 * time.Minute
	renewEvery = 20 * time.Second
	// healFor is how long the service of a machine that has just booted may hold it: its
	// slowest gate waits for five minutes.
	healFor = 6 * time.Minute
	// letGoFor bounds the release at the end of a run, and a note in the cluster.
	letGoFor = 10 * time.Second
)

// Texts about a run that died.
const (
	notEnded = "an earlier run did not end"
	goesOn   = "; this run continues from there"
)

// firstOf reports whether a dead run is reported for the first time: it leaves a Lease and the locks of all
// its hosts.
func (s *Session) firstOf(by steps.LockHolder) bool {
	_, known := s.reported.LoadOrStore(by.Run, true)
	return !known
}

func (s *Session) gone(by steps.LockHolder) bool { return s.opt.Gone != nil && s.opt.Gone(by) }
