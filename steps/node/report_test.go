package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/nodeapi"
)

// apiServer takes what the guard reports, as the API server does: for its own Node, with its own token, in the form
// that Kubernetes takes.
type apiServer struct {
	o          *holder
	down       error
	conditions []nodeapi.Condition
	events     []nodeapi.Event
}

var _ Reporter = (*apiServer)(nil)

func (s *apiServer) asked(at steps.TokenRenewal, node, reason, message string) error {
	s.o.t.Helper()
	if s.down != nil {
		return s.down
	}
	if node != "win-1" || at.Server != "https://10.0.0.10:6443" || len(at.CA) == 0 {
		s.o.t.Errorf("node %q at %q", node, at.Server)
	}
	if f, err := host.ReadFile(s.o.t.Context(), s.o.Host, tokenFile, host.MaxText); err != nil ||
		string(f.Content) != at.Token {
		s.o.t.Errorf("another token than in the file, %v", err)
	}
	if reason == "" || strings.ContainsAny(reason, " .:") || message == "" || len(message) > 1024 ||
		!utf8.ValidString(message) {
		return &nodeapi.StatusError{Code: 422, Message: fmt.Sprintf("reason %q, message %q", reason, message)}
	}
	return nil
}

func (s *apiServer) SetCondition(_ context.Context, at steps.TokenRenewal, node string, c nodeapi.Condition) error {
	err := s.asked(at, node, c.Reason, c.Message)
	if err == nil {
		if c.Since.IsZero() || c.Since.After(time.Now()) {
			s.o.t.Errorf("a condition since %v", c.Since)
		}
		s.conditions = append(s.conditions, c)
	}
	return err
}

func (s *apiServer) AddEvent(_ context.Context, at steps.TokenRenewal, node string, e nodeapi.Event) error {
	err := s.asked(at, node, e.Reason, e.Message)
	if err == nil {
		s.events = append(s.events, e)
	}
	return err
}

// last is the last condition, as its reason with "!" where it is not healthy.
func (s *apiServer) last() string {
	if len(s.conditions) == 0 {
		return ""
	}
	c := s.conditions[len(s.conditions)-1]
	if !c.Healthy {
		return "!" + c.Reason
	}
	return c.Reason
}

// reasons are those of the events since the last call.
func (s *apiServer) reasons() string {
	var out []string
	for _, e := range s.events {
		reason := e.Reason
		if e.Warning {
			reason = "!" + reason
		}
		out = append(out, reason)
	}
	s.events = nil
	return strings.Join(out, " ")
}

// reporting runs a guard that reports to an API server.
func reporting(t *testing.T, during func(s *apiServer, broken *bool)) {
	synctest.Test(t, func(t *testing.T) {
		o := newHolder(t, &steps.Guard{Interval: time.Minute, Account: "t"})
		s, broken := &apiServer{o: o}, false
		ctx, stop := context.WithCancel(t.Context())
		opt := o.options(host.Intercept(o.Host, func(op, subject string) error {
			if broken && op == "start service" {
				return errors.New("it does not start")
			}
			return nil
		}))
		opt.Pause, opt.Tokens, opt.Checks, opt.Reporter = 0, o, []Check{}, s
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, opt) }()
		time.Sleep(time.Second)
		during(s, &broken)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestReports: the condition of the Node says whether it is in order, changes with the next round, and is sent every
// five minutes else. Events say what was fixed and what cannot be.
func TestReports(t *testing.T) {
	reporting(t, func(s *apiServer, broken *bool) {
		if s.last() != "InOrder" || s.reasons() != "" {
			t.Errorf("a healthy node: %+v, %+v", s.conditions, s.events)
		}
		began := s.conditions[0].Since
		time.Sleep(time.Hour)
		if n := len(s.conditions); n < 12 || n > 14 || s.conditions[n-1].Since != began {
			t.Errorf("%d conditions in an hour, the last %+v, the first since %v", n, s.conditions[n-1], began)
		}
		s.o.stop("b")
		time.Sleep(time.Minute)
		if r := s.reasons(); r != "Fixed" || s.last() != "InOrder" {
			t.Errorf("a service that was started: events %q, condition %s", r, s.last())
		}
		*broken = true
		s.o.stop("b")
		time.Sleep(6 * time.Minute)
		if r := s.reasons(); r != "!NotInOrder" || s.last() != "!NotInOrder" ||
			!strings.Contains(s.conditions[len(s.conditions)-1].Message, "b: ") {
			t.Errorf("a service that does not start: events %q, condition %+v", r, s.conditions[len(s.conditions)-1])
		}
		if c := s.conditions[len(s.conditions)-1]; time.Since(c.Since) < 5*time.Minute {
			t.Errorf("since %v, at %v", c.Since, time.Now())
		}
		*broken = false
		time.Sleep(3 * time.Minute)
		if r := s.reasons(); r != "Fixed" || s.last() != "InOrder" {
			t.Errorf("it starts again: events %q, condition %s", r, s.last())
		}
		x := executor.NewExecutor(nil, s.o.Host, none{}, nil)
		if _, err := x.Pause(s.o.t.Context(), executor.PauseRequest{Pause: &steps.GuardPause{By: "alice", Since: time.Now(),
			Until: time.Now().Add(5 * time.Minute)}}); err != nil {
			t.Fatal(err)
		}
		s.o.stop("b")
		time.Sleep(2 * time.Minute)
		if r := s.reasons(); r != "!NotInOrder" || s.last() != "!Paused" {
			t.Errorf("on a paused node: events %q, condition %s", r, s.last())
		}
	})
}

// TestReportsLater: what the API server does not take is sent when it answers again, but for events that are too many
// or that it refuses. A failure is logged once.
func TestReportsLater(t *testing.T) {
	reporting(t, func(s *apiServer, _ *bool) {
		s.down = errors.New("no answer in 20s")
		for range 20 {
			s.o.stop("b")
			time.Sleep(15 * time.Minute) // the step has calmed down
		}
		log := strings.Join(s.o.lines, "\n")
		if n := strings.Count(log, "the cluster is not told: no answer"); n != 1 || len(s.events) > 0 {
			t.Errorf("logged %d times, %v", n, s.events)
		}
		s.down = nil
		time.Sleep(time.Minute)
		if r := strings.Fields(s.reasons()); len(r) != maxEvents || s.last() != "InOrder" {
			t.Errorf("%d events, condition %s", len(r), s.last())
		}
		s.o.stop("b")
		s.down = &nodeapi.StatusError{Code: 403}
		time.Sleep(time.Minute)
		s.down = nil
		time.Sleep(10 * time.Minute)
		if r := s.reasons(); s.last() != "InOrder" || r != "" {
			t.Errorf("condition %s, events %q", s.last(), r)
		}
	})
}

// TestMessages: a message has at most 1024 bytes, and no half of a character at its end.
func TestMessages(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("é", 2000), "x" + strings.Repeat("é", 2000)} {
		cut := cutText(text)
		if len(cut) > maxMessage || !utf8.ValidString(cut) || len(text) <= maxMessage && cut != text ||
			len(text) > maxMessage && !strings.HasSuffix(cut, "é ...") {
			t.Errorf("%d bytes: %q", len(cut), cut)
		}
	}
}
