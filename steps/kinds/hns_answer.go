package kinds

import (
	"context"
	"errors"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// answerWait bounds how long HNS may not answer: it restarts, or makes a virtual switch.
const answerWait = time.Minute

// readNetwork reads an HNS network. It may find HNS restarting: another run may be making a switch.
func readNetwork(ctx context.Context, r host.Reader, e *steps.Env, name string) (have host.HNSNetwork, err error) {
	err = untilHNSAnswers(ctx, e, func() (err error) {
		have, err = r.HNSNetwork(ctx, name)
		return err
	})
	return have, err
}

// deleteNetwork deletes an HNS network.
func deleteNetwork(ctx context.Context, h host.Host, e *steps.Env, name string) error {
	return untilHNSAnswers(ctx, e, func() error { return h.DeleteHNSNetwork(ctx, name) })
}

// untilHNSAnswers makes a call of HNS, and makes it again while HNS does not answer. A call whose answer was lost may
// have taken effect: call must accept that.
func untilHNSAnswers(ctx context.Context, e *steps.Env, call func() error) error {
	bound, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	var err error
	said := false
	waited := wait.Until(bound, lookMost, func() (bool, error) {
		if err = call(); !errors.Is(err, host.ErrNoAnswer) {
			return true, nil
		}
		if !said {
			said = true
			e.Progress(event.StepProgress{Note: "waits until HNS answers"})
		}
		return false, nil
	})
	if waited == nil || errors.Is(waited, context.Canceled) {
		return errors.Join(err, waited)
	}
	return &steps.Error{Code: steps.CodeTimeout, Summary: "HNS does not answer", Detail: err.Error(),
		Remedy: "look at the service hns of the machine and at its event log; then apply again"}
}
