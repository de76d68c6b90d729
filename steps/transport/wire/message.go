package wire

import (
	"context"
	"errors"
	"strings"

	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/hosttext"
)

// Call is a request that the executor of a machine answers, in this process or in the
// agent. A new one is declared here, named in Calls, and made with transport.Do.
type Call[Req, Reply any] struct {
	Method string
	// ReadOnly: it changes nothing, so it may be sent before the agent is known to run,
	// and sent again. Any other call waits until no other run works on the machine.
	ReadOnly bool
	Run      func(x *executor.Executor, ctx context.Context, req Req) (Reply, error)
	// Bound is what the reply to a request may take.
	Bound func(req Req) Bound
	// Verify says what of a reply is not an answer to its request. Nothing of it is used then.
	Verify func(req Req, reply Reply) error
	// Private reports whether a request holds secrets, which only an agent gets that is known to be ours; nil = none
	// does.
	Private func(req Req) bool
	// Scope is whom the events of the call may be about.
	Scope func(req Req) Scope
}

// None is a request or a reply without content.
type None struct{}

// Message is one call with its request and, once it was made, its reply.
type Message interface {
	Method() string
	ReadOnly() bool
	Bound() Bound
	Private() bool
	Request() any // a pointer
	Reply() any   // a pointer
	// Run has the executor answer; it sets the reply.
	Run(ctx context.Context, x *executor.Executor) error
}

// With is the message of a call.
func (c Call[Req, Reply]) With(req Req) *Made[Req, Reply] {
	return &Made[Req, Reply]{call: c, request: req}
}

// Empty is a message whose request is to be decoded.
func (c Call[Req, Reply]) Empty() Message { return &Made[Req, Reply]{call: c} }

// Made is a Message with its types.
type Made[Req, Reply any] struct {
	call    Call[Req, Reply]
	request Req
	Answer  Reply
}

// Method is that of the call.
func (m *Made[Req, Reply]) Method() string { return m.call.Method }

// ReadOnly is that of the call.
func (m *Made[Req, Reply]) ReadOnly() bool { return m.call.ReadOnly }

// Bound is that of the request.
func (m *Made[Req, Reply]) Bound() Bound { return m.call.Bound(m.request) }

// Private reports whether the request holds secrets.
func (m *Made[Req, Reply]) Private() bool { return m.call.Private != nil && m.call.Private(m.request) }

// Request is a pointer to what is asked.
func (m *Made[Req, Reply]) Request() any { return &m.request }

// Reply is a pointer to the answer.
func (m *Made[Req, Reply]) Reply() any { return &m.Answer }

// Run has the executor answer; it sets the reply.
func (m *Made[Req, Reply]) Run(ctx context.Context, x *executor.Executor) (err error) {
	m.Answer, err = m.call.Run(x, ctx, m.request)
	return err
}

// Clean makes the text of the answer safe to print.
func (m *Made[Req, Reply]) Clean() { hosttext.Strings(&m.Answer) }

// longestError bounds an error about a reply, in bytes: it may quote what the machine said.
const longestError = 1 << 10

// Verify checks the answer, after Clean, against the request. On an error the answer is empty.
func (m *Made[Req, Reply]) Verify() error {
	if m.call.Verify == nil {
		return nil
	}
	err := m.call.Verify(m.request, m.Answer)
	if err != nil {
		var none Reply
		m.Answer = none
		if text := err.Error(); len(text) > longestError {
			err = errors.New(strings.ToValidUTF8(text[:longestError], "") + "...")
		}
	}
	return err
}

// Admit returns a function that passes on the events that belong to the call, with its host. nil drops all
// events.
func (m *Made[Req, Reply]) Admit(emit func(event.Event)) func(event.Event) {
	if emit == nil || m.call.Scope == nil {
		return nil
	}
	return m.call.Scope(m.request).admit(emit)
}
