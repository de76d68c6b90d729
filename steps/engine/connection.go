package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

func (h *hostRun) connect(ctx context.Context) error {
	if h.conn != nil {
		return nil
	}
	h.state("connecting", "")
	c, err := h.opt.Connect(ctx, h.node)
	if err != nil {
		return err
	}
	h.conn = c
	return nil
}

func (h *hostRun) disconnect() {
	if h.conn != nil {
		_ = h.conn.Close()
		h.conn = nil
	}
}

// dropped reports whether err says that the connection was lost.
func dropped(err error) bool { return errors.Is(err, transport.ErrDropped) }

// reconnectFor bounds the time in which a lost connection is tried again.
const reconnectFor = 2 * time.Minute

// reconnect connects again, with backoff, while the host does not answer; a refusal ends
// it at once. Then the run is in the given state again.
func (h *hostRun) reconnect(ctx context.Context, cause error, state string) error {
	h.disconnect()
	h.state("reconnecting", cause.Error())
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
		if errors.As(err, &ce) && ce.Reason != transport.ReasonUnreachable {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(reconnectFor))
	if err == nil {
		h.state(state, "")
	}
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
