package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// TestFollows: a round starts after each interval, the first one earlier. What goes wrong is logged once. A paused
// node starts none, and a round that goes on does not hold the service up.
func TestFollows(t *testing.T) {
	m := newMachine(t)
	follow := steps.Follow{Program: "/nodejoin", File: "/follow.json", Log: "/follow.log", Interval: time.Minute}
	plan := steps.BootPlan{Node: "win-1", Steps: m.specs(), Follow: &follow,
		Guard: &steps.Guard{Interval: time.Hour, API: "https://10.0.0.10:6443"}}
	m.apply(spec("boot", "file", &kinds.File{Path: planFile, Content: plan.Text()}))
	synctest.Test(t, func(t *testing.T) {
		m.t = t
		ctx, stop := context.WithCancel(t.Context())
		var started []time.Time
		fail := errors.New("exit status 4")
		end := func() error { return nil }
		goesOn := false
		opt := m.options(m.Host)
		opt.Checks = []Check{}
		opt.Starts = func(f steps.Follow) (<-chan error, error) {
			if f != follow {
				t.Errorf("started %+v", f)
			}
			started = append(started, time.Now())
			ended := make(chan error, 1)
			if !goesOn {
				ended <- end()
			}
			return ended, nil
		}
		done := make(chan error, 1)
		begin := time.Now()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		go func() { done <- Run(ctx, opt) }()

		pass(5*time.Minute + time.Second)
		if n := len(started); n < 5 || n > 6 || started[0].Sub(begin) > time.Minute {
			t.Errorf("rounds at %v since %v", started, begin)
		}
		for i, at := range started[1:] {
			if gap := at.Sub(started[i]); gap != time.Minute {
				t.Errorf("%v between two rounds", gap)
			}
		}
		end = func() error { return fail }
		pass(3 * time.Minute)
		end = func() error { return nil }
		pass(3 * time.Minute)
		logged := slices.DeleteFunc(slices.Clone(m.lines), func(l string) bool { return !strings.HasPrefix(l, "follow") })
		if want := []string{"follow: exit status 4; see /follow.log", "follow: all is well again"}; !slices.Equal(logged,
			want) {
			t.Errorf("logged %q", logged)
		}

		x := executor.NewExecutor(kinds.Catalog(), m.Host, none{}, nil)
		if _, err := x.Pause(ctx, executor.PauseRequest{Pause: &steps.GuardPause{By: "ops",
			Until: time.Now().Add(3*time.Minute - time.Second)}}); err != nil {
			t.Fatal(err)
		}
		before := len(started)
		pass(3*time.Minute - 2*time.Second)
		if n := len(started) - before; n != 0 {
			t.Errorf("%d rounds of a paused node", n)
		}
		goesOn = true
		pass(10 * time.Minute)
		if n := len(started) - before; n != 1 {
			t.Errorf("%d rounds beside one that goes on", n)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestReplacedProgram: the file of a program that was replaced while it ran goes before the next round; it comes back
// where the new one is not there.
func TestReplacedProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nodejoin")
	old := host.OldName(program)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put(program, "new")
	for _, left := range []bool{false, true} {
		if left {
			put(old, "old")
		}
		err := settle(program)
		text, _ := os.ReadFile(program)
		if _, gone := os.Stat(old); err != nil || string(text) != "new" || !os.IsNotExist(gone) {
			t.Errorf("%v: the program is %q; the old one: %v", err, text, gone)
		}
	}
	if err := os.Rename(program, old); err != nil {
		t.Fatal(err)
	}
	err := settle(program)
	if text, _ := os.ReadFile(program); err != nil || string(text) != "new" {
		t.Errorf("%v: the program is %q", err, text)
	}
}

// TestFollowProgramGone: a program that is not there is logged, and is no end of the service.
func TestFollowProgramGone(t *testing.T) {
	dir := t.TempDir()
	_, err := startRound(steps.Follow{Program: dir + "/nodejoin", File: dir + "/f", Log: dir + "/log"})
	if err == nil {
		t.Fatal("it has started")
	}
	m := newMachine(t)
	g := &guard{Options: m.options(m.Host)}
	g.Starts = startRound
	if g.facts, err = m.Facts(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = g.followRound(t.Context(), steps.Follow{Program: dir + "/nodejoin", File: dir + "/f", Log: dir + "/log"})
	if err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Error(err)
	}
}
