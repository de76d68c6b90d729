package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/plan"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// sick says what is wrong with a host: it is dead, its connections come late, or it loses them again and again.
type sick string

const (
	dead     sick = "dead"
	late     sick = "late"
	flapping sick = "flapping"
)

// sickConn takes a second for each call, and loses the first connections of a flapping host.
type sickConn struct {
	transport.Conn
	flaps *int
}

func (c sickConn) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	time.Sleep(time.Second)
	if *c.flaps > 0 {
		*c.flaps--
		return transport.ErrDropped
	}
	return c.Conn.Do(ctx, m, emit)
}

// TestSickTenth: a tenth of the hosts that is dead, late or flapping costs the others no time, and the dead ones fail
// alone.
func TestSickTenth(t *testing.T) {
	const hosts, parallel = 60, 6
	// Each call to a host takes a second: a check, an apply and its check, of six hosts at once.
	well := func(kind sick) (check, apply time.Duration, changed int) {
		synctest.Test(t, func(t *testing.T) {
			check, apply, changed = runSick(t, hosts, parallel, kind)
		})
		return check, apply, changed
	}
	check, apply, all := well("")
	if all != hosts {
		t.Fatalf("%d hosts changed", all)
	}
	for _, kind := range []sick{dead, late, flapping} {
		c, a, changed := well(kind)
		// Each of the sick tenth has a slot for its first second.
		const first = hosts / 10 * time.Second / parallel
		if c > check+first+time.Second || a > apply+first+time.Second {
			t.Errorf("%s: the others are checked after %v and changed after %v, without it %v and %v", kind, c, a, check,
				apply)
		}
		if want := hosts - map[sick]int{dead: hosts / 10}[kind]; changed != want {
			t.Errorf("%s: %d hosts changed, want %d", kind, changed, want)
		}
	}
}

// runSick checks and applies, and returns when the last of the hosts that are well is done with each, and how many
// changed. The sick ones are first.
func runSick(t *testing.T, hosts, parallel int, kind sick) (check, apply time.Duration, changed int) {
	c := directoryOn(t, hosts)
	ill := map[string]bool{}
	flaps := map[string]*int{}
	for i, n := range c.Nodes {
		flaps[n.Name] = new(int)
		if ill[n.Name] = kind != "" && i < hosts/10; ill[n.Name] && kind == flapping {
			*flaps[n.Name] = 3
		}
	}
	start := time.Now()
	var mu sync.Mutex
	last := time.Duration(0) // when one that is well was done
	s := engine.New(c, engine.Options{Parallel: parallel, Emit: func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		if s, ok := e.(event.HostState); ok && s.State == "done" && !ill[s.Host] {
			last = time.Since(start)
		}
	}, Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) {
		if ill[n.Name] && kind != flapping {
			time.Sleep(30 * time.Second)
		}
		if ill[n.Name] && kind == flapping && *flaps[n.Name] < 3 {
			time.Sleep(20 * time.Second) // until it is there again
		}
		if ill[n.Name] && kind == dead {
			return nil, &transport.ConnectError{Reason: transport.ReasonUnreachable, Host: n.Name, Summary: "no connection"}
		}
		h, err := sandbox.Open(ctx, sandbox.Config{Path: n.Connection.Sandbox.Path, OS: n.OS, Hostname: n.Name})
		if err != nil {
			return nil, err
		}
		return sickConn{transport.NewLocal(h, artifact.New(artifact.Options{Direct: true}), h.LockDir()),
			flaps[n.Name]}, nil
	}})
	defer s.Close()
	r := s.Check(t.Context())
	check = last
	for _, h := range r.Hosts {
		if bad := h.Err != nil; bad != (kind == dead && ill[h.Node.Name]) {
			t.Errorf("%s %s: %v", kind, h.Node.Name, h.Err)
		}
	}
	start = time.Now()
	for _, h := range s.Apply(t.Context()).Hosts {
		if len(h.Changed) > 0 {
			changed++
		}
	}
	return check, last, changed
}
