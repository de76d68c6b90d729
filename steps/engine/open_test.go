package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"nodejoin/plan"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/transport"
)

// openConn counts itself while it is open.
type openConn struct {
	transport.Conn
	open *atomic.Int64
}

func (c *openConn) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}

// TestFewConnectionsStayOpen: after the check of many hosts some connections are kept for the apply, and the others
// are made again, so that the memory of a run does not grow with all hosts. A host that does not answer then is tried
// again, as it is after a lost connection.
func TestFewConnectionsStayOpen(t *testing.T) {
	const hosts, most = 130, 100
	c := directoryOn(t, hosts)
	var open, made, refused atomic.Int64
	s := engine.New(c, engine.Options{Parallel: 8, Emit: func(event.Event) {},
		Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) {
			h, err := sandbox.Open(ctx, sandbox.Config{Path: n.Connection.Sandbox.Path, OS: n.OS, Hostname: n.Name})
			if err != nil {
				return nil, err
			}
			if made.Load() >= hosts && refused.Add(1) <= 3 { // hosts that do not answer at once when asked again
				return nil, &transport.ConnectError{Reason: transport.ReasonUnreachable, Host: n.Name}
			}
			made.Add(1)
			open.Add(1)
			return &openConn{transport.NewLocal(h, artifact.New(artifact.Options{Direct: true}), h.LockDir()), &open}, nil
		}})
	for _, h := range s.Check(t.Context()).Hosts {
		if h.Err != nil {
			t.Errorf("%s: %v", h.Node.Name, h.Err)
		}
	}
	if n := open.Load(); n != most {
		t.Errorf("%d connections are open after the check, want %d", n, most)
	}
	for _, h := range s.Apply(t.Context()).Hosts {
		if h.Err != nil || len(h.Changed) != 1 {
			t.Errorf("%s: %v, %v", h.Node, h.Changed, h.Err)
		}
	}
	s.Close()
	if open.Load() != 0 || made.Load() != 2*hosts-most {
		t.Errorf("%d connections are open at the end, %d were made", open.Load(), made.Load())
	}
}

// directoryOn is a plan that makes one folder on each of many sandboxes, h000 and so on.
func directoryOn(t *testing.T, hosts int) *plan.Compiled {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`node "host" {
  count = %d
  name  = format("h%%03d", count.index)
  os    = "linux"
  connection "sandbox" { path = ".sandbox/${count.index}" }
}
step "directory" "dir" { path = "/srv/dir" }
`, hosts)
	if err := os.WriteFile(filepath.Join(dir, "x.join.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, diags := plan.Load(dir, plan.Options{Version: "0.1.0"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c, diags := p.Compile()
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return c
}
