package ui

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"nodejoin/steps/event"
)

// Display shows the events of a run. Close ends it, and must be called before anything
// else is printed to the same stream.
type Display interface {
	Emit(event.Event)
	Close()
}

// NewDisplay makes the display of a mode: "auto" (moving on a terminal, else plain),
// "plain", or "quiet" (failures only). For --json use NewJSON.
func NewDisplay(mode string, t *Term) Display {
	switch {
	case mode == "quiet":
		return &lines{w: t.Err, color: t.ErrColor, quiet: true}
	case mode == "auto" && t.ErrTTY:
		return newLive(t)
	}
	return &lines{w: t.Err, color: t.ErrColor}
}

// lines prints one line per event.
type lines struct {
	w     io.Writer
	color bool
	quiet bool
}

func (l *lines) Emit(e event.Event) {
	if s := line(e, l.color, l.quiet); s != "" {
		fmt.Fprintln(l.w, s)
	}
}

func (l *lines) Close() {}

// line is the line for an event; "" = none.
func line(e event.Event, color, quiet bool) string {
	switch e := e.(type) {
	case event.HostState:
		if quiet || e.State == "done" || e.State == "checking" || e.State == "failed" || e.State == "applying" {
			return ""
		}
		text := cmp.Or(hostStates[e.State], e.State)
		if e.Detail != "" {
			text += " (" + CleanLine(e.Detail) + ")"
		}
		return fmt.Sprintf("%s: %s", CleanLine(e.Host), Paint(color, Dim, text))
	case event.StepStarted:
		return ""
	case event.StepDone:
		switch {
		case e.Result == "failed":
			return fmt.Sprintf("%s: %s %s: %s", CleanLine(e.Host), Paint(color, Red, "x"), e.Step, CleanLine(e.Summary))
		case e.Result == "changed" || e.Result == "unchanged" && e.Action == "wait":
			if quiet {
				return ""
			}
			return fmt.Sprintf("%s: %s %s %s", CleanLine(e.Host), Paint(color, Green, "ok"), e.Step,
				Paint(color, Dim, fmt.Sprintf("%s (%s)", cmp.Or(doneWords[e.Action], e.Action), short(e.Duration))))
		}
	case event.Warning:
		s := Paint(color, Yellow, "warning") + ": " + CleanLine(e.Summary)
		if e.Host != "" {
			s = CleanLine(e.Host) + ": " + s
		}
		if e.Detail != "" {
			s += ": " + CleanLine(e.Detail)
		}
		return s
	}
	return ""
}

// hostStates are states of event.HostState for people.
var hostStates = map[string]string{"pushing_agent": "sending the agent",
	"reconnecting":  "connection lost, connecting again",
	"moved_foreign": "what nodejoin did not make lay in its folder's place, and was moved away"}

// doneWords are actions that are done.
var doneWords = map[string]string{"create": "created", "update": "updated", "delete": "deleted",
	"restart": "restarted", "start": "started", "wait": "reached"}

func short(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// live shows the finished lines, and below them one moving line per busy host.
type live struct {
	t     *Term
	mu    sync.Mutex
	busy  []string // hosts, in the order in which they became busy
	now   map[string]string
	since map[string]time.Time
	drawn int
	stop  chan struct{}
	done  chan struct{}
}

func newLive(t *Term) *live {
	l := &live{t: t, now: map[string]string{}, since: map[string]time.Time{}, stop: make(chan struct{}),
		done: make(chan struct{})}
	go l.tick()
	return l
}

func (l *live) tick() {
	defer close(l.done)
	tk := time.NewTicker(200 * time.Millisecond)
	defer tk.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tk.C:
			l.mu.Lock()
			l.draw("")
			l.mu.Unlock()
		}
	}
}

func (l *live) Emit(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e := e.(type) {
	case event.HostState:
		switch e.State {
		case "done", "failed":
			l.set(e.Host, "")
		default:
			l.set(e.Host, cmp.Or(hostStates[e.State], e.State))
		}
		if e.State == "reconnecting" {
			l.draw(line(e, l.t.ErrColor, false))
			return
		}
		l.draw("")
		return
	case event.StepStarted:
		text := e.Step
		if e.Title != "" {
			text += "  " + CleanLine(e.Title)
		}
		if e.Reason != "" {
			text += ": " + CleanLine(e.Reason)
		}
		l.set(e.Host, text)
	case event.StepProgress:
		text := e.Step
		if e.Note != "" {
			text += "  " + CleanLine(e.Note)
		}
		if e.Total > 0 {
			text += fmt.Sprintf("  %s of %s", Bytes(e.Done), Bytes(e.Total))
		} else if e.Done > 0 {
			text += "  " + Bytes(e.Done)
		}
		l.keep(e.Host, text)
	}
	l.draw(line(e, l.t.ErrColor, false))
}

func (l *live) set(host, text string) {
	l.keep(host, text)
	l.since[host] = time.Now()
}

func (l *live) keep(host, text string) {
	_, had := l.now[host]
	if text == "" {
		delete(l.now, host)
		for i, h := range l.busy {
			if h == host {
				l.busy = append(l.busy[:i:i], l.busy[i+1:]...)
				break
			}
		}
		return
	}
	if !had {
		l.busy = append(l.busy, host)
		l.since[host] = time.Now()
	}
	l.now[host] = text
}

// draw replaces the moving lines, and puts a finished line above them unless it is "".
func (l *live) draw(finished string) {
	var b strings.Builder
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.drawn)
	}
	b.WriteString("\r\x1b[J")
	if finished != "" {
		b.WriteString(finished + "\n")
	}
	width := l.t.Width()
	const most = 8
	for i, h := range l.busy {
		if i == most {
			fmt.Fprintf(&b, "%s\n", Cut(fmt.Sprintf("and %d more", len(l.busy)-most), width-1))
			break
		}
		s := Cut(fmt.Sprintf("%s: %s", CleanLine(h), l.now[h]), width-9)
		took := short(time.Since(l.since[h]).Truncate(100 * time.Millisecond))
		fmt.Fprintf(&b, "%s %s\n", Paint(l.t.ErrColor, Cyan, s), Paint(l.t.ErrColor, Dim, took))
	}
	l.drawn = min(len(l.busy), most+1)
	fmt.Fprint(l.t.Err, b.String())
}

func (l *live) Close() {
	close(l.stop)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = nil
	l.draw("")
}

// Bytes is a size for people: "12.3 MB".
func Bytes(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}

// JSON writes each event as one line. The first line has the version.
type JSON struct {
	mu sync.Mutex
	w  io.Writer
}

// NewJSON starts a stream on w.
func NewJSON(w io.Writer, nodejoinVersion string) *JSON {
	fmt.Fprintf(w, `{"type":"version","format_version":%q,"nodejoin":%q}`+"\n", event.Version, nodejoinVersion)
	return &JSON{w: w}
}

// Emit writes an event.
func (j *JSON) Emit(e event.Event) {
	b, err := event.Encode(e)
	if err != nil {
		return
	}
	j.Raw(b)
}

// Raw writes one encoded object as a line.
func (j *JSON) Raw(b []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.w, "%s\n", b)
}
