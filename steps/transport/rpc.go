package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/creachadair/jrpc2"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/transport/wire"
)

const (
	// cancelGrace is how long a cancelled call waits for the agent to end its step
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

	mu   sync.Mutex
	emit func(event.Event) // nil but during an apply
}

// newRPC speaks over the agent's output r and input w; the agent may not run yet.
func newRPC(r io.Reader, w io.WriteCloser, abort func(cause error)) *rpc {
	c := &rpc{abort: abort, hello: make(chan struct{}), ended: make(chan struct{})}
	c.client = jrpc2.NewClient(&incoming{Channel: wire.NewChannel(r, w), rpc: c}, nil)
	return c
}

// close frees what newRPC took; the connection must have ended or end now.
func (c *rpc) close() { _ = c.client.Close() }

// incoming takes the agent's notifications out of the stream, in their order and
// before the reply that follows them, and passes on replies.
type incoming struct {
	*wire.Channel
	rpc   *rpc
	noise int
}

func (i *incoming) Recv() ([]byte, error) {
	for {
		b, err := i.Channel.Recv()
		if err != nil {
			return nil, i.end(err)
		}
		var m struct {
			Version string          `json:"jsonrpc"`
			Method  string          `json:"method"`
			Params  json.RawMessage `json:"params"`
		}
		if json.Unmarshal(b, &m) != nil || m.Version != jrpc2.Version {
			// A login shell may greet before the agent speaks.
			if i.noise += len(b) + 1; i.rpc.spoke() || i.noise > maxNoise {
				return nil, i.end(fmt.Errorf("%w: the output is not the agent's: %.80q", errNoAgent, b))
			}
			continue
		}
		if m.Method != wire.NoteHello && !i.rpc.spoke() {
			// A program that repeats what it is told, for one.
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

// call makes one call. When ctx ends the agent is asked to give up and may still
// answer; without an answer the connection is given up. Errors: *steps.Error of
// the agent, the cause of ctx, ErrDropped.
func (c *rpc) call(ctx context.Context, method string, params, result any) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	detached, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	stop := context.AfterFunc(ctx, func() { c.giveUp(detached, context.Cause(ctx)) })
	defer stop()
	err := c.client.CallResult(detached, method, params, result)
	if err == nil {
		return nil
	}
	if re := (*jrpc2.Error)(nil); errors.As(err, &re) && len(re.Data) > 0 {
		var se steps.Error
		if json.Unmarshal(re.Data, &se) == nil && se.Summary != "" {
			return &se
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.client.IsStopped() || c.gone() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, net.ErrClosed):
		return c.dropped(err)
	}
	return fmt.Errorf("%s: %w", method, err)
}

// dropped says why the stream ended; err is what the call saw of it.
func (c *rpc) dropped(err error) error {
	if c.gone() && !errors.Is(c.why, io.EOF) {
		err = c.why
	}
	return fmt.Errorf("%w: %w", ErrDropped, err)
}

// giveUp asks the agent to end the running call, and ends the connection when it
// does not within cancelGrace. call is done when the call has returned.
func (c *rpc) giveUp(call context.Context, cause error) {
	t := time.AfterFunc(cancelGrace, func() {
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
