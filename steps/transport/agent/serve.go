// Package agent is the side of the transport that runs on the machine: it answers
// the controller over standard input and output with a steps.Executor.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/creachadair/jrpc2"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/kinds"
	"nodejoin/steps/transport/wire"
)

// Serve answers until in ends, ctx is done or the controller is silent for too
// long; a call that runs then is interrupted and waited for. The end of in is no
// error. A read of in that is under way when Serve ends otherwise is not waited for.
func Serve(ctx context.Context, in io.Reader, out io.WriteCloser, opt Options) error {
	if opt.Idle == 0 {
		opt.Idle = DefaultIdle
	}
	if err := checkProgram(ctx, opt); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{opt: opt, ctx: ctx, blobs: &blobs{host: opt.Host, os: opt.Hello.OS,
		dir: BlobDir(opt.Hello.OS, opt.DataDir), own: opt.Program, ownDigest: opt.Hello.Digest}}
	if opt.Owner != 0 {
		s.blobs.inbox = filepath.Dir(opt.Program)
	}
	s.lock = hostlock.New(opt.DataDir)
	s.exec = executor.NewExecutor(kinds.Catalog(), opt.Host, opt.Artifacts, s.event)
	s.rpc = jrpc2.NewServer(s, &jrpc2.ServerOptions{
		AllowPush: true, DisableBuiltin: true,
		Concurrency: 8, // a call and the notifications that may come meanwhile
		NewContext:  func() context.Context { return ctx },
	})
	if opt.Secure != "" && opt.Secure == opt.Hello.Digest {
		done, err := s.secure(ctx, wire.None{})
		if opt.Hello.Secured = &done; err != nil {
			opt.Hello.Unsecured = steps.AsError(err)
		}
	}
	pr, pw := io.Pipe()
	go func() {
		_, err := io.Copy(pw, in)
		_ = pw.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { _ = pr.CloseWithError(io.EOF) })
	defer stop()
	idle := time.AfterFunc(opt.Idle, func() { cancel(errSilent) })
	defer idle.Stop()
	s.rpc.Start(&heard{Channel: wire.NewChannel(pr, &gather{to: out}), heard: func() { idle.Reset(opt.Idle) }})
	if err := s.rpc.Notify(ctx, wire.NoteHello, opt.Hello); err != nil && !errors.Is(err, jrpc2.ErrConnClosed) {
		cancel(fmt.Errorf("say hello: %w", err))
	}
	err := s.rpc.Wait()
	s.calls.Lock() // a call that was under way has ended
	_ = s.lock.Abandon()
	s.calls.Unlock()
	if s.saidBye() {
		s.blobs.clear(context.WithoutCancel(ctx))
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

var errSilent = errors.New("the controller has been silent for too long")

// heard is a channel that notes every message.
type heard struct {
	*wire.Channel
	heard func()
}

func (h *heard) Recv() ([]byte, error) {
	b, err := h.Channel.Recv()
	if err == nil {
		h.heard()
	}
	return b, err
}

// Assign finds the handler of a method.
func (s *server) Assign(_ context.Context, method string) jrpc2.Handler {
	for _, c := range wire.Calls {
		if m := c.Empty(); m.Method() == method {
			return s.handler(m.Request(), func(ctx context.Context) (any, error) { return m.Reply(), s.run(ctx, m) })
		}
	}
	switch method {
	case wire.MethodBlobBegin:
		return call(s, s.blobs.begin)
	case wire.MethodBlobPart:
		return call(s, s.blobs.add)
	case wire.MethodBlobFetch:
		return call(s, s.blobs.fetch)
	case wire.MethodBlobEnd:
		return call(s, s.blobs.finish)
	case wire.MethodForget:
		return call(s, s.forget)
	case wire.MethodLock:
		return call(s, s.take)
	case wire.MethodUnlock:
		return call(s, func(context.Context, wire.None) (wire.None, error) { return wire.None{}, s.lock.Release() })
	case wire.MethodSecure:
		return call(s, s.secure)
	case wire.NoteCancel:
		return s.note(func() {
			if s.cancel != nil {
				s.cancel()
			}
		})
	case wire.NoteBye:
		return s.note(func() { s.said = true })
	case wire.NotePing:
		return s.note(func() {})
	}
	return nil
}

func (s *server) note(f func()) jrpc2.Handler {
	return func(context.Context, *jrpc2.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
		return nil, nil
	}
}

// call makes a handler of a function.
func call[P, R any](s *server, f func(context.Context, P) (R, error)) jrpc2.Handler {
	var p P
	return s.handler(&p, func(ctx context.Context) (any, error) { return f(ctx, p) })
}

// handler decodes one request into params and answers it with f. It runs alone, can be canceled, and
// returns its errors in their wire form.
func (s *server) handler(params any, f func(context.Context) (any, error)) jrpc2.Handler {
	return func(ctx context.Context, req *jrpc2.Request) (any, error) {
		if err := req.UnmarshalParams(params); err != nil {
			return nil, err
		}
		s.calls.Lock()
		defer s.calls.Unlock()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s.setCancel(cancel)
		defer s.setCancel(nil)
		r, err := f(ctx)
		if err != nil {
			e := steps.AsError(err)
			return nil, jrpc2.Errorf(jrpc2.InternalError, "%s", e.Error()).WithData(e)
		}
		return r, nil
	}
}

// run makes the executor answer. A call that changes the machine waits until no other run works on it:
// after a lost connection the earlier agent may still be ending its step.
func (s *server) run(ctx context.Context, m wire.Message) error {
	if m.ReadOnly() {
		return m.Run(ctx, s.exec)
	}
	if req, ok := m.Request().(*executor.Request); !ok || req.Lock == nil {
		unlock, err := s.alone(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := wire.RunLocked(ctx, m, s.exec, runLock{s}); err != nil {
		return err
	}
	if reply, ok := m.Reply().(*executor.ApplyReply); ok {
		s.blobs.used(context.WithoutCancel(ctx), *m.Request().(*executor.Request), *reply)
	}
	return nil
}

// runLock is the lock of the run.
type runLock struct{ *server }

func (l runLock) Take(ctx context.Context, req steps.LockRequest) (steps.LockReply, error) {
	return l.take(ctx, req)
}
func (l runLock) Release() error { return l.lock.Release() }

// take locks the machine for the run.
func (s *server) take(ctx context.Context, req steps.LockRequest) (steps.LockReply, error) {
	if err := s.own(ctx); err != nil {
		return steps.LockReply{}, err
	}
	reply, err := s.lock.Take(ctx, req)
	if err == nil && reply.By == nil {
		err = s.exec.Refresh(ctx)
	}
	return reply, err
}

func (s *server) saidBye() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

func (s *server) setCancel(f context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = f
}

// event sends an event; if the controller has gone, it is lost.
func (s *server) event(e event.Event) {
	b, err := event.Encode(e)
	if err != nil {
		return
	}
	_ = s.rpc.Notify(s.ctx, wire.NoteEvent, json.RawMessage(b))
}

// forget waits until no other run works, then releases the lock and removes its file.
func (s *server) forget(ctx context.Context, req executor.LeaveRequest) (executor.ForgetReply, error) {
	unlock, err := s.alone(ctx)
	if err != nil {
		return executor.ForgetReply{}, err
	}
	unlock()
	if err := s.lock.Release(); err != nil {
		return executor.ForgetReply{}, err
	}
	return s.exec.Forget(ctx, req)
}

// alone locks out other runs while a call runs, if the controller does not hold the lock for the whole run.
func (s *server) alone(ctx context.Context) (unlock func(), err error) {
	if s.lock.Held() {
		return func() {}, nil
	}
	if err := s.own(ctx); err != nil {
		return nil, err
	}
	unlock, err = lockHost(ctx, s.opt.DataDir)
	if err != nil {
		return nil, err
	}
	if err := s.exec.Refresh(ctx); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}
