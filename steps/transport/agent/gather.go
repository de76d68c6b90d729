package agent

import (
	"bytes"
	"io"
	"sync"
	"time"

	"nodejoin/steps/transport/wire"
)

// gatherFor is how long an event waits for others.
const gatherFor = 20 * time.Millisecond

// gather writes messages. Events go out together, with the message that follows them or after gatherFor: each one
// alone is a packet, and of these a server may have no more than ten under way on a new connection (RFC 6928).
type gather struct {
	to io.WriteCloser

	mu    sync.Mutex
	held  []byte
	timer *time.Timer // runs while something is held
	err   error       // of a write that nobody waited for
}

// eventStart begins an event, as jrpc2 writes it.
var eventStart = []byte(`{"jsonrpc":"2.0","method":"` + wire.NoteEvent + `"`)

func (g *gather) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, p...)
	if bytes.HasPrefix(p, eventStart) {
		if g.timer == nil {
			g.timer = time.AfterFunc(gatherFor, func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.flush()
			})
		}
		return len(p), g.err
	}
	g.flush()
	return len(p), g.err
}

// flush writes what is held.
func (g *gather) flush() {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	if len(g.held) > 0 && g.err == nil {
		_, g.err = g.to.Write(g.held)
	}
	g.held = nil
}

// Close writes what is held, then closes.
func (g *gather) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flush()
	return g.to.Close()
}
