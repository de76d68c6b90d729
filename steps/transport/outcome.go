package transport

import (
	"strings"
	"sync"
	"time"
)

// outcome is how a program ended, and what it wrote last. Safe for concurrent use.
type outcome struct {
	done chan struct{} // closed when it has ended, or nothing more is known of it

	mu     sync.Mutex
	status string // "exit status 127", "ended by signal KILL"; "" = not known
	stderr tail
}

func (o *outcome) ended(status string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status = status
}

func (o *outcome) end(bound time.Duration) string {
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-o.done:
	case <-t.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var parts []string
	for _, s := range []string{o.status, o.stderr.String()} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

func (o *outcome) last() string { return o.stderr.String() }

// tail keeps the last bytes of what is written to it. Safe for concurrent use.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// tailSize in bytes: the last lines of a crash.
const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailSize {
		t.b = append(t.b[:0], t.b[len(t.b)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?"))
}
