package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopGrace is the time between the request to end and the end by force; killGrace
// that in which a killed program must be gone. Together they stay below the 20 s in
// which Windows wants services to end at a shutdown (WaitToKillServiceTimeout).
const (
	stopGrace = 10 * time.Second
	killGrace = 5 * time.Second
)

// program is one run of the supervised program.
type program interface {
	// Ended is closed once the program has ended.
	Ended() <-chan struct{}
	// Result is how it ended, once it has.
	Result() string
	// Interrupt asks the program to end.
	Interrupt() error
	// Kill kills the program and its children.
	Kill() error
	// Release frees what outlives the program, once it has ended.
	Release() error
	String() string
}

// supervisor keeps one program running.
type supervisor struct {
	delay time.Duration
	log   *log
	start func() (program, error)
	// started is called once, after the first start.
	started func()
}

// run keeps the program running until ctx ends, then ends it. It fails only if the first start fails or the
// program does not end.
func (s *supervisor) run(ctx context.Context) error {
	delay := s.delay
	for first := true; ; first = false {
		begun := time.Now()
		p, err := s.start()
		switch {
		case err != nil && first:
			s.log.Say("not started: %v", err)
			return err
		case err != nil:
			s.log.Say("not started: %v", err)
		default:
			s.log.Say("started %s", p)
			if first {
				s.started()
			}
			select {
			case <-ctx.Done():
				return s.end(p)
			case <-p.Ended():
			}
			s.log.Say("ended by itself after %v: %s", time.Since(begun).Round(time.Millisecond), p.Result())
			// Processes that the program left behind must not interfere with the next run.
			if err := errors.Join(p.Kill(), p.Release()); err != nil {
				s.log.Say("clear away: %v", err)
			}
			if time.Since(begun) >= healthyAfter {
				delay = s.delay
			}
		}
		s.log.Say("next start in %v", delay)
		if within(delay, ctx.Done()) {
			s.log.Say("stopped")
			return nil
		}
		delay = min(2*delay, maxDelay)
	}
}

// end ends a running program, by force if necessary.
func (s *supervisor) end(p program) error {
	s.log.Say("stopping %s", p)
	if err := p.Interrupt(); err != nil {
		s.log.Say("it cannot be asked to end: %v", err)
	} else if !within(stopGrace, p.Ended()) {
		s.log.Say("it did not end within %v", stopGrace)
	}
	err := p.Kill()
	if !within(killGrace, p.Ended()) {
		err = errors.Join(err, fmt.Errorf("%s was killed and has not ended after %v", p, killGrace))
		s.log.Say("%v", err)
		return err
	}
	if err = errors.Join(err, p.Release()); err != nil {
		s.log.Say("clear away: %v", err)
	}
	s.log.Say("stopped: %s", p.Result())
	return nil
}

func within(bound time.Duration, done <-chan struct{}) bool {
	limit := time.NewTimer(bound)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		return false
	}
}
