package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// Files of the guard in nodejoin's folder: what it saw last, and an operator's order to fix nothing.
const (
	guardFile = "guard.json"
	pauseFile = "paused.json"
)

// GuardState reads what the service of the node saw last; nil = there is nothing that can be read as such.
func GuardState(ctx context.Context, r host.Reader, f host.Facts) (*steps.GuardState, error) {
	s, err := readOwn[steps.GuardState](ctx, r, f, guardFile)
	if s != nil && s.Version != steps.GuardVersion {
		s = nil
	}
	return s, err
}

// SaveGuardState writes it.
func SaveGuardState(ctx context.Context, h host.Host, f host.Facts, s steps.GuardState) error {
	s.Version = steps.GuardVersion
	return writeOwn(ctx, h, f, guardFile, s)
}

// Paused reads the pause of the machine; nil = there is none. A file that cannot be understood is an error: nothing is
// to be fixed against an operator.
func Paused(ctx context.Context, r host.Reader, f host.Facts) (*steps.GuardPause, error) {
	return readOwn[steps.GuardPause](ctx, r, f, pauseFile)
}

// halted is the error of a request that an operator may pause, on a machine that is paused; nil = it goes on.
func (x *Executor) halted(ctx context.Context, req Request) *steps.Error {
	if !req.Pausable {
		return nil
	}
	p, err := Paused(ctx, x.host, x.facts)
	switch {
	case err != nil:
		return &steps.Error{Code: steps.CodePaused, Summary: "it is not known whether the node is paused",
			Detail: err.Error(), Remedy: "end the pause with 'nodejoin unpause'"}
	case p.Holds(time.Now()):
		return steps.PausedError(p)
	}
	return nil
}

// PauseRequest pauses the service of a node, or ends its pause.
type PauseRequest struct {
	Pause *steps.GuardPause `json:"pause,omitempty"` // nil ends it
	Plan  string            `json:"plan,omitempty"`  // its name
}

// PauseReply says what was so before.
type PauseReply struct {
	Before *steps.GuardPause `json:"before,omitempty"`
	// Guard is what the service saw last; nil = it has seen nothing on this machine.
	Guard *steps.GuardState `json:"guard,omitempty"`
}

// Pause has the service of the node fix nothing, or lets it work again.
func (x *Executor) Pause(ctx context.Context, req PauseRequest) (reply PauseReply, err error) {
	if err := x.prepareFor(ctx, req.Plan); err != nil {
		return reply, err
	}
	if req.Pause != nil && x.record.Empty(x.facts) {
		return reply, &steps.Error{Code: steps.CodeInvalid, Summary: "the machine has not joined",
			Detail: "nodejoin has nothing on it", Remedy: "apply the plan first"}
	}
	if reply.Guard, err = GuardState(ctx, x.host, x.facts); err != nil {
		return reply, err
	}
	if reply.Before, err = Paused(ctx, x.host, x.facts); err != nil && req.Pause != nil {
		return reply, err
	}
	if req.Pause == nil {
		return reply, x.host.Remove(ctx, host.Join(x.facts.OS, x.facts.DataDir, pauseFile))
	}
	return reply, writeOwn(ctx, x.host, x.facts, pauseFile, req.Pause)
}

// maxOwn bounds what is read of such a file, in bytes.
const maxOwn = 1 << 20

func readOwn[T any](ctx context.Context, r host.Reader, f host.Facts, name string) (*T, error) {
	path := host.Join(f.OS, f.DataDir, name)
	if err := host.Own(ctx, r, path); err != nil {
		return nil, err
	}
	rc, err := r.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, maxOwn))
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

func writeOwn(ctx context.Context, h host.Host, f host.Facts, name string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return h.WriteFile(ctx, host.Join(f.OS, f.DataDir, name), bytes.NewReader(append(b, '\n')),
		host.WriteOptions{Access: host.AccessPrivate})
}
