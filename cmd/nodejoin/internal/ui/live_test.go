package ui

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"nodejoin/steps/event"
	"nodejoin/steps/wait"
)

// midway is a run on n hosts after 65 seconds: a third is done, one failed, some wait, ten are running.
func midway(n int) (*liveState, time.Time) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := Work{Title: "Applying", Parallel: 10, Steps: map[string]map[string]time.Duration{}}
	for i := range n {
		name := fmt.Sprintf("win-%03d", i+1)
		w.Hosts = append(w.Hosts, name)
		w.Steps[name] = map[string]time.Duration{"dir": 0, "archive": time.Minute, "ready": 30 * time.Second}
	}
	s := newLiveState(w, start)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for i, name := range w.Hosts {
		switch {
		case i < n/3:
			for id := range w.Steps[name] {
				s.take(event.StepDone{Host: name, Step: id, Result: "changed"}, at(20))
			}
			state := "done"
			if i == 1 {
				state = "failed"
			}
			s.take(event.HostState{Host: name, State: state}, at(21))
		case i >= n/3+10:
			s.take(event.HostState{Host: name, State: "waiting", Detail: "for the canary"}, at(1))
		case i%3 == 0:
			s.take(event.StepStarted{Host: name, Step: "archive", Title: "Programs of Kubernetes 1.36.3"}, at(55))
			s.take(event.StepProgress{Host: name, Step: "archive", Done: 10e6, Total: 60e6}, at(60))
			s.take(event.StepProgress{Host: name, Step: "archive", Done: 36e6, Total: 60e6}, at(62))
		case i%3 == 1:
			s.take(event.StepStarted{Host: name, Step: "ready", Action: "wait", Title: "Node is Ready"}, at(30))
			s.take(event.StepProgress{Host: name, Step: "ready",
				Note: "waits until the Node is Ready; so far: NotReady\n\x1b[2Jnetwork plugin"}, at(31))
		default:
			s.take(event.HostState{Host: name, State: "connecting"}, at(64))
		}
	}
	return s, at(65)
}

// TestFrames: at each width and number of hosts all lines fit, the header is complete, and no text of a host reaches
// the terminal as an escape sequence.
func TestFrames(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		for _, hosts := range []int{1, 10, 50, 500} {
			for _, height := range []int{6, 24, 50} {
				s, now := midway(hosts)
				lines := frame{width: width, height: height}.draw(s, now)
				text := strings.Join(lines, "\n")
				if len(lines) >= height || strings.Contains(text, "\x1b") {
					t.Errorf("%d columns, %d hosts: %d lines of %d\n%s", width, hosts, len(lines), height, text)
				}
				for _, l := range lines {
					if n := ansi.StringWidth(l); n >= width {
						t.Errorf("%d columns, %d hosts: a line of %d: %s", width, hosts, n, l)
					}
				}
				if head := fmt.Sprintf("Applying  %d/%d host", hosts/3, hosts); !strings.HasPrefix(text, head) ||
					!strings.Contains(lines[0], "1m05s") {
					t.Errorf("%d columns, %d hosts: the header is %q", width, hosts, lines[0])
				}
				if width == 80 && hosts == 50 && height == 24 {
					compare(t, text, frame50)
				}
			}
		}
	}
	s, now := midway(10)
	compare(t, strings.Join(frame{width: 120, height: 24}.draw(s, now), "\n"), frame10)
	compare(t, strings.Join(frame{width: 60, height: 24, ascii: true}.draw(s, now), "\n"), frame10narrow)
}

func compare(t *testing.T, have, want string) {
	t.Helper()
	if want = strings.Trim(want, "\n"); have != want {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

const frame50 = `
Applying  16/50 hosts  48/150 steps  1 failed  1m05s, about 4m51s left
win-017  ready  waits until the Node is Ready; so far: NotReady\n\...  0/3  35s
win-018  connecting                                                     0/3  1s
win-019  archive  Programs o...  ━━━━━━━━━━━━────────  36.0 MB/60.0 MB  1s left
win-020  ready  waits until the Node is Ready; so far: NotReady\n\...  0/3  35s
win-021  connecting                                                     0/3  1s
win-022  archive  Programs o...  ━━━━━━━━━━━━────────  36.0 MB/60.0 MB  1s left
win-023  ready  waits until the Node is Ready; so far: NotReady\n\...  0/3  35s
win-024  connecting                                                     0/3  1s
win-025  archive  Programs o...  ━━━━━━━━━━━━────────  36.0 MB/60.0 MB  1s left
win-026  ready  waits until the Node is Ready; so far: NotReady\n\...  0/3  35s
waiting: win-027 to win-050: for the canary
ended: win-001 to win-016
`
const frame10 = `
Applying  3/10 hosts  9/30 steps  1 failed  ━━━━━━━━━─────────────────────  1m05s, about 1m30s left
win-004  archive  Programs of Kubernetes 1.36.3          0/3  ━━━━━━━━━━━━────────  36.0 MB/60.0 MB  13.0 MB/s  1s left
win-005  ready  waits until the Node is Ready; so far: NotReady\n\x1b[2Jnetwork plugin                         0/3  35s
win-006  connecting                                                                                             0/3  1s
win-007  archive  Programs of Kubernetes 1.36.3          0/3  ━━━━━━━━━━━━────────  36.0 MB/60.0 MB  13.0 MB/s  1s left
win-008  ready  waits until the Node is Ready; so far: NotReady\n\x1b[2Jnetwork plugin                         0/3  35s
win-009  connecting                                                                                             0/3  1s
win-010  archive  Programs of Kubernetes 1.36.3          0/3  ━━━━━━━━━━━━────────  36.0 MB/60.0 MB  13.0 MB/s  1s left
ended: win-001 to win-003
`
const frame10narrow = `
Applying  3/10 hosts  9/30 steps  1 failed  1m05s, ~1m30s
win-004  archive  Programs of Kuberne...  ####----  1s left
win-005  ready  waits until the Node is Ready;...  0/3  35s
win-006  connecting                                 0/3  1s
win-007  archive  Programs of Kuberne...  ####----  1s left
win-008  ready  waits until the Node is Ready;...  0/3  35s
win-009  connecting                                 0/3  1s
win-010  archive  Programs of Kuberne...  ####----  1s left
ended: win-001 to win-003
`

// TestEstimate: the time left is estimated from earlier runs, or else from the steps of this run.
func TestEstimate(t *testing.T) {
	s, now := midway(3)
	// One host is done. One is 10 s into 60 s of work, with 30 s after that. The third has waited 35 of 30 s, with 60 s
	// to go.
	if have := s.left(now); have != 90*time.Second {
		t.Errorf("from earlier runs: %s", have)
	}
	for _, of := range s.work.Steps {
		for id := range of {
			of[id] = -1
		}
	}
	if have := s.left(now); have.Round(time.Second) != 130*time.Second { // 3 of 9 steps in 65 s
		t.Errorf("from this run: %s", have)
	}
	first, now := midway(1)
	for id := range first.work.Steps["win-001"] {
		first.work.Steps["win-001"][id] = -1
	}
	if have := first.left(now); have != 0 {
		t.Errorf("without anything to estimate from: %s", have)
	}
}

// terminal is a virtual terminal whose driver turns a line feed into a new line, as a real one does.
type terminal struct {
	mu sync.Mutex
	e  *vt.Emulator
}

func (v *terminal) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, err := v.e.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	return len(p), err
}

// lines are the lines of the screen, up to the last that is not empty.
func (v *terminal) lines() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for _, l := range strings.Split(v.e.String(), "\n") {
		out = append(out, strings.TrimRight(l, " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// cursor is where the cursor stands.
func (v *terminal) cursor() (x, y int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.e.CursorPosition()
	return p.X, p.Y
}

func (v *terminal) until(t *testing.T, what string, ok func(screen string) bool) {
	t.Helper()
	var have string
	err := wait.Until(t.Context(), 50*time.Millisecond, func() (bool, error) {
		have = v.lines()
		return ok(have), nil
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, errors.Unwrap(err), have)
	}
}

// TestLive: the moving part is below the lines that stay. At the end only those lines are left, and the cursor shows.
func TestLive(t *testing.T) {
	v := &terminal{e: vt.NewEmulator(80, 24)}
	fmt.Fprintln(v, "$ nodejoin apply")
	term := &Term{Err: v}
	l := newLive(term, Work{Title: "Applying", Hosts: []string{"a", "b"}})
	for _, e := range []event.Event{
		event.HostState{Host: "a", State: "connecting"},
		event.HostState{Host: "b", State: "connecting"},
		event.StepStarted{Host: "a", Step: "files", Title: "A very long title\nwith a line feed " + strings.Repeat("x", 80)},
		event.StepProgress{Host: "b", Step: "image", Done: 1_500_000, Total: 3_000_000},
		event.StepDone{Host: "b", Step: "svc", Result: "failed", Summary: "\x1b[2Jbad"},
		event.Warning{Host: "a", Summary: "日本語 " + strings.Repeat("long ", 20)},
	} {
		l.Emit(e)
	}
	v.until(t, "lines above, lines below", func(s string) bool {
		return strings.Contains(s, "$ nodejoin apply\nb: x svc: \\x1b[2Jbad\na: warning: 日本語 long") &&
			strings.Contains(s, "Applying  0/2 hosts") && strings.Contains(s, `files  A very long title\nwith a line feed`) &&
			strings.Contains(s, "1.5 MB/3.0 MB")
	})
	if x, y := v.cursor(); x != 0 || y != 4 {
		t.Errorf("the cursor stands at column %d of line %d, not where the frame begins:\n%s", x, y, v.lines())
	}
	term.Notice("Stopping")
	v.until(t, "a notice above", func(s string) bool { return strings.Contains(s, "Stopping\nApplying") })
	l.Close()
	term.Notice("after")
	want := "$ nodejoin apply\nb: x svc: \\x1b[2Jbad\na: warning: 日本語 " + strings.Repeat("long ", 11)
	if have := v.lines(); !strings.HasPrefix(have, want) || !strings.HasSuffix(have, "long\nStopping\nafter") {
		t.Errorf("after the end:\n%s", have)
	}
	if v.e.CursorHidden() {
		t.Error("the cursor is hidden")
	}
}

// TestLiveAbandoned: a display that is abandoned midway shows the cursor again.
func TestLiveAbandoned(t *testing.T) {
	v := &terminal{e: vt.NewEmulator(80, 24)}
	term := &Term{Err: v}
	l := newLive(term, Work{Title: "Applying", Hosts: []string{"a"}})
	l.Emit(event.HostState{Host: "a", State: "connecting"})
	v.until(t, "a frame", func(s string) bool { return strings.Contains(s, "connecting") })
	term.Abandon()
	if v.e.CursorHidden() {
		t.Error("the cursor is hidden")
	}
}

// TestNoticeAtTheEnd: a notice that comes while the moving lines are taken away is printed after them.
func TestNoticeAtTheEnd(t *testing.T) {
	v := &terminal{e: vt.NewEmulator(80, 24)}
	fmt.Fprintln(v, "$ nodejoin apply")
	var term *Term
	var ends atomic.Bool
	term = &Term{Err: writerFunc(func(p []byte) (int, error) {
		if ends.CompareAndSwap(true, false) { // p takes the lines away
			term.Notice("\nStopping")
		}
		return v.Write(p)
	})}
	l := newLive(term, Work{Title: "Applying", Hosts: []string{"a", "b"}})
	l.Emit(event.HostState{Host: "a", State: "connecting"})
	v.until(t, "a frame", func(s string) bool { return strings.Contains(s, "connecting") })
	ends.Store(true)
	l.Close()
	if have, want := v.lines(), "$ nodejoin apply\n\nStopping"; have != want {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestWriteHosts: if there are few hosts, each has a line; if there are many, hosts with the same result share one.
func TestWriteHosts(t *testing.T) {
	few := []HostResult{{Node: "a", Changed: 62, Unchanged: 3, Took: 1500 * time.Millisecond, Result: "done"},
		{Node: "b", Changed: 7, Took: 70 * time.Second, Result: "failed at kubelet", Reason: "the service ended\nby itself"}}
	many := []HostResult{}
	for i := range 50 {
		h := few[0]
		h.Node = fmt.Sprintf("win-%d", i+1)
		if i == 30 {
			h = few[1]
		}
		many = append(many, h)
	}
	for _, c := range []struct {
		hosts []HostResult
		limit int
		want  string
	}{
		{few, 0, `
HOST  CHANGED  UNCHANGED  TOOK   RESULT
a     62       3          1.5s   done
b     7        0          1m10s  failed at kubelet: the service ended\nby itself`},
		{many, 60, `
HOST                                    RESULT
win-1 to win-30, win-32 to win-50 (49)  done
b                                       failed at kubelet...`},
	} {
		var b strings.Builder
		if err := WriteHosts(&b, c.hosts, false, c.limit); err != nil {
			t.Fatal(err)
		}
		compare(t, strings.TrimRight(b.String(), "\n"), c.want)
	}
}
