package supervise

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeProgram ends when asked to unless it is deaf, and always when killed.
type fakeProgram struct {
	ended    chan struct{}
	deaf     bool
	released bool
	closed   bool
}

func newFake() *fakeProgram { return &fakeProgram{ended: make(chan struct{})} }

func (p *fakeProgram) exit() {
	if !p.closed {
		p.closed = true
		close(p.ended)
	}
}
func (p *fakeProgram) Ended() <-chan struct{} { return p.ended }
func (p *fakeProgram) Result() string         { return "fake end" }
func (p *fakeProgram) String() string         { return "fake" }
func (p *fakeProgram) Release() error         { p.released = true; return nil }
func (p *fakeProgram) Kill() error            { p.exit(); return nil }
func (p *fakeProgram) Interrupt() error {
	if !p.deaf {
		p.exit()
	}
	return nil
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := testLog(t, filepath.Join(t.TempDir(), "x.log"), 1<<20, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var pauses []time.Duration
		last := time.Now()
		lives := []time.Duration{0, 0, 0, 0, 0, 0, 0, 59 * time.Second, 61 * time.Second, 0}
		fails := map[int]bool{3: true}
		n, told := 0, 0
		s := &supervisor{delay: time.Second, log: log, started: func() { told++ }}
		s.start = func() (program, error) {
			i := n
			n++
			pauses = append(pauses, time.Since(last))
			if i == len(lives) {
				cancel()
				return newFake(), nil
			}
			last = time.Now().Add(lives[i])
			if fails[i] {
				return nil, errors.New("no such program")
			}
			p := newFake()
			time.AfterFunc(lives[i], p.exit)
			return p, nil
		}
		if err := s.run(ctx); err != nil {
			t.Error(err)
		}
		const sec = time.Second
		want := []time.Duration{0, sec, 2 * sec, 4 * sec, 8 * sec, 16 * sec, 30 * sec, 30 * sec, 30 * sec, sec, 2 * sec}
		if diff := cmp.Diff(want, pauses); diff != "" {
			t.Error(diff)
		}
		if told != 1 {
			t.Errorf("reported %d times that the program runs", told)
		}
	})
}

func TestFirstStartFails(t *testing.T) {
	log := testLog(t, filepath.Join(t.TempDir(), "x.log"), 1<<20, 1)
	want := errors.New("no such program")
	s := &supervisor{delay: time.Second, log: log, started: func() { t.Error("reported that it runs") },
		start: func() (program, error) { return nil, want }}
	if err := s.run(t.Context()); !errors.Is(err, want) {
		t.Errorf("have %v", err)
	}
}

func TestStopBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := testLog(t, filepath.Join(t.TempDir(), "x.log"), 1<<20, 1)
		ctx, cancel := context.WithCancel(t.Context())
		p := newFake()
		p.deaf = true
		s := &supervisor{delay: time.Second, log: log, started: cancel, start: func() (program, error) { return p, nil }}
		begun := time.Now()
		if err := s.run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != stopGrace {
			t.Errorf("it took %v", took)
		}
		if !p.released {
			t.Error("not released")
		}
	})
}

func TestStopInThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := testLog(t, filepath.Join(t.TempDir(), "x.log"), 1<<20, 1)
		ctx, cancel := context.WithCancel(t.Context())
		s := &supervisor{delay: 30 * time.Second, log: log, started: func() {}, start: func() (program, error) {
			p := newFake()
			p.exit()
			return p, nil
		}}
		time.AfterFunc(5*time.Second, cancel)
		begun := time.Now()
		if err := s.run(ctx); err != nil || time.Since(begun) != 5*time.Second {
			t.Error(err, time.Since(begun))
		}
	})
}

func TestParse(t *testing.T) {
	have, err := parse([]string{"--name", "flanneld", "--log", "f.log", "--log-max-size", "1000", "--log-keep=2",
		"--restart-delay", "50ms", "--", "flanneld", "--kube-subnet-mgr", "--name", "x"})
	if err != nil {
		t.Fatal(err)
	}
	want := options{name: "flanneld", log: "f.log", maxSize: 1000, keep: 2, delay: 50 * time.Millisecond,
		command: []string{"flanneld", "--kube-subnet-mgr", "--name", "x"}}
	if diff := cmp.Diff(want, have, cmp.AllowUnexported(options{})); diff != "" {
		t.Error(diff)
	}
	have, err = parse([]string{"--name", "n", "--log", "l", "--", "p"})
	want = options{name: "n", log: "l", maxSize: 10 << 20, keep: 5, delay: time.Second, command: []string{"p"}}
	if diff := cmp.Diff(want, have, cmp.AllowUnexported(options{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, args := range []string{"", "--name n -- p", "--log l -- p", "--name n --log l",
		"--name n --log l --log-max-size 0 -- p",
		"--name n --log l --log-keep -1 -- p", "--name n --log l --restart-delay 0s -- p",
		"--name n --log l --restart-delay 31s -- p", "--title n"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if code := Main([]string{"--name", "n"}); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
}
