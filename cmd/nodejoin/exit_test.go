package main

import (
	"context"
	"fmt"
	"testing"

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
		{steps.AsError(kube.ErrUnreachable), exitUnreachable},
		{&transport.ConnectError{Reason: transport.ReasonAuth}, exitUnreachable},
		{fmt.Errorf("in the middle: %w", transport.ErrDropped), exitUnreachable},
		{fmt.Errorf("stopped: %w", context.Canceled), exitInterrupted},
	} {
		if have := errorCode(tt.err); have != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, have, tt.want)
		}
	}
	// Several hosts: what a person must look at first.
	if have := worst(exitUnreachable, exitNotVerified, exitFailed, exitOK); have != exitFailed {
		t.Errorf("of all: %d", have)
	}
	if have := worst(exitUnreachable, exitNotVerified); have != exitNotVerified {
		t.Errorf("of unreachable and not verified: %d", have)
	}
	if have := worst(exitOK, exitOK); have != exitOK {
		t.Errorf("of none: %d", have)
	}
}
