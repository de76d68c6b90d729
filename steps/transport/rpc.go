package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/creachadair/jrpc2"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
)

const (
	// cancelGrace is the longest that a cancelled call waits for the agent to end its step
	// and answer; after that the connection is given up.
	cancelGrace = 5 * time.Second
	// maxNoise bounds what a login shell may print before the agent speaks, in bytes.
	maxNoise = 64 << 10
)

// errNoAgent: what was started is not the agent, or ended before it spoke.
var errNoAgent = errors.New("no agent answered")

// rpc is the controller's end of the connection to one agent.
type rpc struct {
	client *jrpc2.Client
	abort  func(cause error) // ends the connection at once; may be called again

	hello chan struct{} // closed when said is set
	said  wire.Hello
	ended chan struct{} // closed when nothing more will come
	why   error         // set before ended is closed

	absent atomic.Bool // the machine's shell says that there is no agent, and waits for it
	zstd   atomic.Bool // it says that the machine has zstd; set before absent

	before becoming // of the goroutine that reads, until ended is closed

	bytes, values atomic.Int64 // of the wire.Bound of the running call; 0 = none runs

	mu   sync.Mutex
	emit func(event.Event) // nil but during an apply
	life func()            // hears that the agent has said something; nil but during a call
}

// newRPC speaks over the agent's output r and input w; the agent may not run yet. The password is for the program that
// gives the agent root's rights; "" = there is none.
func newRPC(r io.Reader, w io.WriteCloser, abort func(cause error), password string) *rpc {
	c := &rpc{abort: abort, hello: make(chan struct{}), ended: make(chan struct{}), before: becoming{password: password}}
	ch := wire.NewChannel(r, w)
	ch.Limit = c.limit
	c.client = jrpc2.NewClient(&incoming{Channel: ch, rpc: c}, nil)
	return c
}

// limit bounds the line that is being read: only the reply to a call of an agent that has said hello may be long.
func (c *rpc) limit() int {
	if !c.spoke() {
		return wire.Line
	}
	return max(wire.Line, int(c.bytes.Load()))
}

// close frees what newRPC took; the connection must have ended or end now.
func (c *rpc) close() { _ = c.client.Close() }

// incoming takes the agent's notifications out of the stream, in their order and
// before the reply that follows them, and passes on replies.
type incoming struct {
	*wire.Channel
	rpc     *rpc
	noise   int
	flood   flood
	sending sync.Mutex
}

// Send writes one message; the goroutine that reads may answer while another sends.
func (i *incoming) Send(msg []byte) error {
	i.sending.Lock()
	defer i.sending.Unlock()
	if err := i.Channel.Send(msg); err != nil {
		return &unsentError{err}
	}
	return nil
}

// unsentError says that a message did not go out whole, so that there is no answer to it.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

func (i *incoming) Recv() ([]byte, error) {
	for {
		b, err := i.receive()
		if err != nil {
			return nil, i.end(err)
		}
		var m struct {
			Version string          `json:"jsonrpc"`
			Method  string          `json:"method"`
			Params  json.RawMessage `json:"params"`
		}
		if json.Unmarshal(b, &m) != nil || m.Version != jrpc2.Version {
			zstd := bytes.HasSuffix(b, []byte(wire.NoAgentZstd))
			if (zstd || bytes.HasSuffix(b, []byte(wire.NoAgent))) && !i.rpc.spoke() {
				i.rpc.zstd.Store(zstd)
				i.rpc.absent.Store(true)
				return nil, i.end(fmt.Errorf("%w: it is not there", errNoAgent))
			}
			// A login shell may greet before the agent speaks.
			if i.noise += len(b) + 1; i.rpc.spoke() {
				return nil, i.end(fmt.Errorf("%w: the output is not the agent's: %.80q", errAnswer, b))
			} else if i.noise > maxNoise {
				return nil, i.end(fmt.Errorf("%w: the output is not the agent's: %.80q", errNoAgent, b))
			}
			continue
		}
		if m.Method != wire.NoteHello && !i.rpc.spoke() {
			if ok, err := i.rpc.before.answer(m.Method, m.Params, i.Send); err != nil {
				return nil, i.end(fmt.Errorf("%w: %w", errNoAgent, err))
			} else if ok {
				continue
			}
			// For example a program that echoes its input.
			return nil, i.end(fmt.Errorf("%w: the first message is %q", errNoAgent, m.Method))
		}
		switch m.Method {
		case "":
			return b, nil
		case wire.NoteHello:
			if err := i.rpc.greet(m.Params); err != nil {
				return nil, i.end(err)
			}
		case wire.NoteEvent:
			if e, err := event.Decode(m.Params); err == nil {
				i.rpc.event(e)
			}
		}
	}
}

// Close leaves the channel of a shell that waits for the agent open.
func (i *incoming) Close() error {
	if i.rpc.absent.Load() {
		return nil
	}
	return i.Channel.Close()
}

// receive reads a message within the bounds of its line and of the running call.
func (i *incoming) receive() ([]byte, error) {
	b, err := i.Channel.Recv()
	switch {
	case errors.Is(err, wire.ErrTooLong) && !i.rpc.spoke():
		return nil, fmt.Errorf("%w: %w", errNoAgent, err)
	case errors.Is(err, wire.ErrTooLong):
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	case err != nil:
		return nil, err
	}
	if err := wire.Holds(b, max(lineValues, int(i.rpc.values.Load()))); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if err := i.flood.one(time.Now()); err != nil {
		return nil, err
	}
	i.rpc.alive()
	return b, nil
}

// lineValues bounds the values of what is no reply.
const lineValues = 256

func (i *incoming) end(err error) error {
	i.rpc.why = err
	close(i.rpc.ended)
	return err
}

func (c *rpc) greet(params json.RawMessage) error {
	if c.spoke() {
		return nil
	}
	if err := json.Unmarshal(params, &c.said); err != nil {
		return fmt.Errorf("%w: %w", errNoAgent, err)
	}
	close(c.hello)
	return nil
}

// spoke reports whether the agent has said hello.
func (c *rpc) spoke() bool {
	select {
	case <-c.hello:
		return true
	default:
		return false
	}
}

// gone reports whether the stream has ended.
func (c *rpc) gone() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// wait waits for the agent's hello; errNoAgent when it does not come.
func (c *rpc) wait(ctx context.Context, bound time.Duration) error {
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-c.hello:
		return nil
	default:
	}
	select {
	case <-c.hello:
		return nil
	case <-c.ended:
		if c.spoke() {
			return nil
		}
		return fmt.Errorf("%w: %w", errNoAgent, c.why)
	case <-t.C:
		return fmt.Errorf("%w within %s", errNoAgent, bound)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *rpc) event(e event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.emit != nil {
		c.emit(e)
	}
}

func (c *rpc) setEmit(f func(event.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.emit = f
}

// alive notes a sign of life of the agent.
func (c *rpc) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life != nil {
		c.life()
	}
}

func (c *rpc) setLife(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life = f
}

// within limits ctx to the time that a call may take. over lifts the limit.
func (c *rpc) within(ctx context.Context, method string, b wire.Bound) (bounded context.Context, over func()) {
	bounded, cancel := context.WithCancelCause(ctx)
	c.bytes.Store(int64(b.Bytes))
	c.values.Store(int64(b.Values))
	var timers []*time.Timer
	if b.Within > 0 {
		timers = append(timers, time.AfterFunc(b.Within, func() { cancel(silent(method, b.Within, "no reply")) }))
	}
	if b.Silence > 0 {
		t := time.AfterFunc(b.Silence, func() { cancel(silent(method, b.Silence, "neither a reply nor a sign of work")) })
		timers = append(timers, t)
		c.setLife(func() { t.Reset(b.Silence) })
	}
	return bounded, func() {
		c.setLife(nil)
		for _, t := range timers {
			t.Stop()
		}
		c.bytes.Store(0)
		c.values.Store(0)
		cancel(nil)
	}
}

// call makes one call within its bound. When ctx ends the agent is asked to give up and may still
// answer; without an answer the connection is given up. Errors: *steps.Error of
// the agent, the cause of ctx, ErrDropped, a *ConnectError for what broke a bound.
func (c *rpc) call(ctx context.Context, method string, bound wire.Bound, params, result any) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	caller := ctx
	ctx, over := c.within(ctx, method, bound)
	defer over()
	grace := cancelGrace
	if bound.Within > 0 {
		grace = min(grace, bound.Within)
	}
	err := c.make(ctx, method, grace, params, result)
	if late := context.Cause(ctx); late != nil && caller.Err() == nil {
		return late // what it may have answered since came too late
	}
	return err
}

func (c *rpc) make(ctx context.Context, method string, grace time.Duration, params, result any) error {
	detached, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	stop := context.AfterFunc(ctx, func() { c.giveUp(detached, context.Cause(ctx), grace) })
	defer stop()
	err := c.client.CallResult(detached, method, params, result)
	if err == nil {
		return nil
	}
	if re := (*jrpc2.Error)(nil); errors.As(err, &re) && len(re.Data) > 0 {
		var se steps.Error
		if json.Unmarshal(re.Data, &se) == nil && se.Summary != "" {
			hosttext.Strings(&se)
			if err := wire.VerifyError(&se); err != nil {
				return untrusted(method, err)
			}
			return &se
		}
	}
	var unsent *unsentError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.client.IsStopped() || c.gone() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &unsent):
		if c.gone() && errors.Is(c.why, errAnswer) {
			return untrusted(method, c.why)
		}
		return c.dropped(err)
	}
	return untrusted(method, err)
}

// dropped says why the stream ended; err is what the call saw of it, which is that it was cancelled where it had
// been sent.
func (c *rpc) dropped(err error) error {
	if c.gone() && (!errors.Is(c.why, io.EOF) || errors.Is(err, context.Canceled)) {
		err = c.why
	}
	return fmt.Errorf("%w: %w", ErrDropped, err)
}

// giveUp asks the agent to end the running call, and ends the connection when it
// does not within grace. call is done when the call has returned.
func (c *rpc) giveUp(call context.Context, cause error, grace time.Duration) {
	t := time.AfterFunc(grace, func() {
		if call.Err() == nil {
			c.abort(cause)
		}
	})
	defer t.Stop()
	_ = c.client.Notify(call, wire.NoteCancel, nil)
	<-call.Done()
}

// notify sends a notification as far as the connection takes it.
func (c *rpc) notify(method string) { _ = c.client.Notify(context.Background(), method, nil) }
