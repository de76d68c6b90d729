package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
)

// asks lets those who ask the API server the same thing at the same time share an answer: hundreds of hosts are
// checked and joined at once, and the accounts, objects and requests of the cluster are the same for all. Nobody gets
// an answer to a request that was sent before they asked, so it is as fresh as one of their own.
type asks struct {
	clock atomic.Int64 // counts questions and requests

	mu      sync.Mutex
	answers map[string]*lastAnswer
}

// lastAnswer is that to a question.
type lastAnswer struct {
	turn  chan struct{} // held by whoever asks or reads; the fields below are theirs
	asked int64         // when; 0 = not yet
	value any
	err   error
}

func (a *asks) about(question string) *lastAnswer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers == nil {
		a.answers = map[string]*lastAnswer{}
	}
	if a.answers[question] == nil {
		a.answers[question] = &lastAnswer{turn: make(chan struct{}, 1)}
	}
	return a.answers[question]
}

// shared asks, or returns the answer of somebody who has begun to ask since the call. Callers must not change it. A
// question always has the same type of answer.
func shared[T any](ctx context.Context, a *asks, question string, ask func() (T, error)) (value T, err error) {
	now := a.clock.Add(1)
	last := a.about(question)
	select {
	case last.turn <- struct{}{}:
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
	defer func() { <-last.turn }()
	if last.asked > now {
		value, _ = last.value.(T)
		return value, last.err
	}
	now = a.clock.Add(1)
	value, err = ask()
	if ctx.Err() == nil { // otherwise it says nothing to others
		last.asked, last.value, last.err = now, value, err
	}
	return value, err
}

// questionOf names a question about what is wanted.
func questionOf[T any](want T) (string, error) {
	text, err := json.Marshal(want)
	return fmt.Sprintf("%T %s", want, text), err
}
