package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kube"
	"nodejoin/steps/transport"
)

func TestErrorCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, exitOK},
		{fmt.Errorf("odd"), exitFailed},
		{&steps.Error{Code: steps.CodeDigest}, exitFailed},
		{&steps.Error{Code: steps.CodeNotConverged}, exitNotVerified},
		{&steps.Error{Code: steps.CodeInterrupted}, exitInterrupted},
		{&steps.Error{Code: steps.CodeReboot}, exitReboot},
		{steps.AsError(kube.ErrUnreachable), exitUnreachable},
		{&transport.ConnectError{Reason: transport.ReasonAuth}, exitUnreachable},
		{&transport.ConnectError{Reason: transport.ReasonSilent}, exitUnreachable},
		{&transport.ConnectError{Reason: transport.ReasonAnswer}, exitUnreachable},
		{fmt.Errorf("in the middle: %w", transport.ErrDropped), exitUnreachable},
		{fmt.Errorf("stopped: %w", context.Canceled), exitInterrupted},
	} {
		if have := errorCode(tt.err); have != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, have, tt.want)
		}
	}
	// With several hosts, the worst result sets the exit code.
	if have := worst(exitUnreachable, exitNotVerified, exitFailed, exitOK); have != exitFailed {
		t.Errorf("all: %d", have)
	}
	if have := worst(exitUnreachable, exitNotVerified); have != exitNotVerified {
		t.Errorf("unreachable and not verified: %d", have)
	}
	if have := worst(exitReboot, exitUnreachable, exitOK); have != exitUnreachable {
		t.Errorf("unreachable and a pending reboot: %d", have)
	}
	if have := worst(exitOK, exitReboot); have != exitReboot {
		t.Errorf("done and a pending reboot: %d", have)
	}
	if have := worst(exitOK, exitOK); have != exitOK {
		t.Errorf("none: %d", have)
	}
}

// Ctrl-C ends the question without an answer.
func TestInterruptedQuestion(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	var said bytes.Buffer
	a := &app{term: &ui.Term{Out: io.Discard, Err: &said, In: in, InTTY: true}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := a.approve(ctx, &plan.Compiled{Nodes: []plan.Node{{Connection: plan.Connection{Type: "local"}}}}, "Apply?",
		"do otherwise")
	var code exitError
	if !errors.As(err, &code) || code != exitInterrupted || !strings.Contains(said.String(), "Nothing was changed") {
		t.Errorf("have %v and %q, want exit code 130 and a message that nothing was changed", err, said.String())
	}
}
