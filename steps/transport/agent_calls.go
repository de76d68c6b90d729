package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/transport/wire"
	"nodejoin/steps/wait"
)

// Do makes a call. One that only reads is sent without waiting for the agent's hello: it
// saves a round trip, and can be sent again if no agent, or not ours, was there. One with secrets waits.
func (s *agentConn) Do(ctx context.Context, m wire.Message, emit func(event.Event)) error {
	if !m.ReadOnly() {
		if err := s.ready(ctx); err != nil {
			return err
		}
		r, _ := s.agent()
		r.setEmit(emit)
		defer r.setEmit(nil)
		return s.call(ctx, m.Method(), m.Bound(), m.Request(), m.Reply())
	}
	if m.Private() {
		if err := s.ready(ctx); err != nil {
			return err
		}
	}
	reply, heard, err := s.early(ctx, m)
	switch {
	case !heard:
		if err = s.ready(ctx); err == nil {
			err = s.call(ctx, m.Method(), m.Bound(), m.Request(), &reply)
		}
	case err == nil:
		err = s.settle(ctx)
	}
	if err != nil {
		return err
	}
	return untrusted(m.Method(), json.Unmarshal(reply, m.Reply()))
}

// early makes a call that only reads, before the agent is known to run. heard: it was answered by our agent, one that
// was just sent after it had made nodejoin's folder private.
func (s *agentConn) early(ctx context.Context, m wire.Message) (reply json.RawMessage, heard bool, err error) {
	r, p := s.agent()
	// A program that never says hello is not the agent, however long it runs.
	bound := time.AfterFunc(s.helloBound(), func() {
		if !r.spoke() {
			_ = p.Close()
		}
	})
	err = s.call(ctx, m.Method(), m.Bound(), m.Request(), &reply)
	bound.Stop()
	var se *steps.Error
	unheard := err != nil && !errors.As(err, &se) && ctx.Err() == nil && !r.spoke()
	stranger := err == nil && (!r.is(s.file.digest) || s.sent && r.said.Secured == nil)
	return reply, !unheard && !stranger, err
}

// Lock makes the agent hold the machine's lock until it ends.
func (s *agentConn) Lock(ctx context.Context, req steps.LockRequest) (reply steps.LockReply, err error) {
	if err := s.ready(ctx); err != nil {
		return reply, err
	}
	err = cleaned(s.call(ctx, wire.MethodLock, wire.OfMethod(wire.MethodLock, req.Wait), req, &reply))
	hosttext.Strings(&reply)
	return reply, err
}

func (s *agentConn) Unlock(ctx context.Context) error {
	return cleaned(s.own(ctx, wire.MethodUnlock, wire.None{}, &wire.None{}))
}

// Close ends the connection. It waits for the machine only within bounds. What was staged and not used is dropped
// there.
func (s *agentConn) Close() error {
	r, p := s.agent()
	s.stop()
	if r != nil && s.staged && s.lostBy() == nil && !r.gone() {
		// Bounded: if the connection does not take these bytes, it is closed.
		t := time.AfterFunc(closeBound, s.door.hangUp)
		r.notify(wire.NoteBye)
		_ = p.CloseWrite()
		t.Stop()
	}
	s.door.hangUp()
	s.door.release()
	if r != nil {
		r.close()
	}
	s.work.Wait()
	return nil
}

// Stage sends an artifact to <DataDir>/blobs/<digest>. The step that uses it checks its digest over there.
func (s *agentConn) Stage(ctx context.Context, c *Content, progress func(done, total int64)) (err error) {
	defer func() { err = cleaned(err) }()
	algorithm, digest := c.Source.Digest()
	blob := wire.Blob{Algorithm: algorithm, Digest: digest, Size: c.Size}
	if !blob.Valid() {
		return &steps.Error{Code: steps.CodeInvalid, Summary: "no artifact to send",
			Detail: fmt.Sprintf("%q needs a digest", c.Source.Name())}
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	var state wire.BlobState
	if err := s.own(ctx, wire.MethodBlobBegin, blob, &state); err != nil {
		return err
	}
	s.staged = true
	if state.Have {
		return nil
	}
	if err := s.door.upload(ctx, c, blob, state, progress); err != nil {
		return err
	}
	return s.own(ctx, wire.MethodBlobEnd, blob, &wire.None{})
}

// agentGone bounds the wait for the end of the agent's process, before and while its
// program is removed.
const agentGone = 15 * time.Second

// Forget has the agent remove nodejoin's folder, ends it, and removes its program with
// those of earlier versions from the home folder of the user that logs in.
func (s *agentConn) Forget(ctx context.Context, req executor.LeaveRequest) (reply executor.ForgetReply, err error) {
	if err := s.ready(ctx); err != nil {
		return reply, err
	}
	if err := s.own(ctx, wire.MethodForget, req, &reply); err != nil {
		return executor.ForgetReply{}, cleaned(err)
	}
	hosttext.Strings(&reply)
	_, p := s.agent()
	_ = p.CloseWrite()
	p.end(agentGone)
	_, rest := s.watch("remove the agent")
	defer rest()
	within, cancel := context.WithTimeout(ctx, agentGone)
	defer cancel()
	for {
		err := s.door.removeAgents(within)
		if err == nil {
			return reply, nil
		}
		if s.lostBy() != nil || ctx.Err() != nil {
			return reply, s.failed(ctx, err)
		}
		// Windows keeps the program of a process for a moment after its end.
		if wait.Pause(within, 200*time.Millisecond) != nil {
			return reply, &ConnectError{Reason: ReasonAgent, Host: s.name,
				Summary: "the agent's program cannot be removed", Detail: err.Error(), Err: err,
				Remedy: "everything else is done; delete the folder .nodejoin in the home folder of the user that logs in"}
		}
	}
}

// closeBound bounds the last messages to a machine that may be gone.
const closeBound = 2 * time.Second
