package engine_test

import (
	"context"
	"errors"
	"testing"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/transport"
	"nodejoin/steps/transport/wire"
)

// silentConn does an apply that takes the lock, and its reply is lost.
type silentConn struct{ transport.Conn }

func (c silentConn) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	err := c.Conn.Do(ctx, m, emit)
	if req, ok := m.Request().(*executor.Request); ok && err == nil && m.Method() == wire.Apply.Method &&
		req.Lock != nil {
		return &transport.ConnectError{Reason: transport.ReasonSilent, Summary: "the machine does not answer"}
	}
	return err
}

// TestNoteOfAnUnansweredApply: an apply whose first call, which takes the lock of the machine, is not answered may
// have changed the machine. It is noted there, and the machine is unlocked.
func TestNoteOfAnUnansweredApply(t *testing.T) {
	c := directoryOn(t, 1)
	run := func(name string, silent bool) (engine.HostReport, error) {
		s := engine.New(c, engine.Options{Emit: func(event.Event) {},
			Holder: steps.LockHolder{Run: name, Command: "apply"},
			Connect: func(ctx context.Context, n plan.Node) (transport.Conn, error) {
				h, err := sandbox.Open(ctx, sandbox.Config{Path: n.Connection.Sandbox.Path, OS: n.OS, Hostname: n.Name})
				if err != nil {
					return nil, err
				}
				conn := transport.NewLocal(h, artifact.New(artifact.Options{Direct: true}), h.LockDir())
				if silent {
					return silentConn{conn}, nil
				}
				return conn, nil
			}})
		defer s.Close()
		r := s.Check(t.Context())
		return r.Hosts[0], s.Apply(t.Context()).Hosts[0].Err
	}
	var ce *transport.ConnectError
	if _, err := run("unanswered", true); !errors.As(err, &ce) || ce.Reason != transport.ReasonSilent {
		t.Fatal(err)
	}
	next, err := run("next", false)
	if err != nil {
		t.Error(err)
	}
	if last := next.Last; last == nil || last.Holder.Run != "unanswered" || last.Result != "failed" {
		t.Errorf("the note of the first run: %+v", last)
	}
}
