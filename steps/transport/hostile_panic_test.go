package transport_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nodejoin/steps/event"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// panics is a connection that panics in one method.
type panics struct {
	transport.Conn
	on string
}

func (p panics) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	if m.Method() == p.on {
		panic("an index out of range")
	}
	return p.Conn.Do(ctx, m, emit)
}

// TestPanicOverOneHost: a panic about one host ends the work on that host only.
func TestPanicOverOneHost(t *testing.T) {
	for _, method := range []string{"check", "apply", "leave_check", "leave", "collect", "diagnose", "selftest"} {
		t.Run(method, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r := &hostileRun{t: t, lie: lie{on: method}, dir: t.TempDir()}
			r.dial = func(context.Context) (transport.Conn, error) {
				h, a := transport.FileHost(filepath.Join(r.dir, "data"))
				return panics{transport.NewLocal(h, a, filepath.Join(r.dir, "evil-lock")), method}, nil
			}
			r.run(ctx)
			if r.evil == nil || !strings.Contains(r.evil.Error(), "nodejoin failed over this host: an index out of range") {
				t.Errorf("the host: %v", r.evil)
			}
			if r.good != nil {
				t.Errorf("the other one: %v", r.good)
			}
			last := map[string]string{}
			for _, e := range r.events {
				if s, ok := e.(event.HostState); ok {
					last[s.Host] = s.State
				}
			}
			if last["evil"] != "failed" || last["good"] != "done" {
				t.Errorf("in the end the hosts are %v", last)
			}
		})
	}
}
