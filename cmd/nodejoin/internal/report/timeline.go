package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/event"
)

// Recorder notes which steps took time, and when. It is not safe for concurrent use. A nil Recorder notes nothing.
type Recorder struct {
	hosts []*lane
	by    map[string]*lane
}

// lane is what happened on one host.
type lane struct {
	Host  string
	Steps []stepTime
}

// stepTime is a step that took time.
type stepTime struct {
	ID, Result, Note string // Result: "changed", "reached" or "failed"
	Start            time.Time
	Took             time.Duration
}

// Emit notes an event of now.
func (r *Recorder) Emit(e event.Event) { r.At(e, time.Now()) }

// At notes an event of a time.
func (r *Recorder) At(e event.Event, at time.Time) {
	d, ok := e.(event.StepDone)
	if r == nil || !ok || d.Result == "skipped" || d.Result == "unchanged" && d.Action != "wait" {
		return
	}
	if r.by == nil {
		r.by = map[string]*lane{}
	}
	l := r.by[d.Host]
	if l == nil {
		l = &lane{Host: d.Host}
		r.by[d.Host] = l
		r.hosts = append(r.hosts, l)
	}
	s := stepTime{ID: d.Step, Result: d.Result, Note: d.Summary, Start: at.Add(-d.Duration), Took: d.Duration}
	if d.Result == "unchanged" {
		s.Result = "reached"
	}
	l.Steps = append(l.Steps, s)
}

func (l *lane) failed() bool {
	return slices.ContainsFunc(l.Steps, func(s stepTime) bool { return s.Result == "failed" })
}

func (l *lane) span() (from, to time.Time) {
	for i, s := range l.Steps {
		if i == 0 || s.Start.Before(from) {
			from = s.Start
		}
		if end := s.Start.Add(s.Took); i == 0 || end.After(to) {
			to = end
		}
	}
	return from, to
}

// timeline is a drawing of lanes below one scale.
type timeline struct {
	Scale []tick
	Lanes []drawnLane
	More  int // lanes that are not drawn
}

type tick struct{ X, Text string }

type drawnLane struct {
	Host, Took string
	Failed     bool
	Bars       []bar
}

// bar is a step; X and W are of 1000.
type bar struct{ ID, Class, X, W, Start, Took, Note string }

// mostLanes bounds the size of a page. Hosts that failed come first, then those that took longest.
const mostLanes = 40

func (r *Recorder) draw() *timeline {
	if r == nil || len(r.hosts) == 0 {
		return nil
	}
	var from, to time.Time
	for i, l := range r.hosts {
		a, b := l.span()
		if i == 0 || a.Before(from) {
			from = a
		}
		if i == 0 || b.After(to) {
			to = b
		}
	}
	whole := max(to.Sub(from), time.Millisecond)
	x := func(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(whole)*1000) }
	t := &timeline{}
	for k := range 5 {
		at := whole * time.Duration(k) / 4
		t.Scale = append(t.Scale, tick{x(at), seconds(at)})
	}
	shown := r.hosts
	if len(shown) > mostLanes {
		shown = slices.Clone(shown)
		slices.SortStableFunc(shown, func(a, b *lane) int { return b.compare(a) })
		t.More = len(shown) - mostLanes
		shown = shown[:mostLanes]
		slices.SortStableFunc(shown, func(a, b *lane) int { return a.Steps[0].Start.Compare(b.Steps[0].Start) })
	}
	for _, l := range shown {
		a, b := l.span()
		d := drawnLane{Host: ui.CleanLine(l.Host), Took: seconds(b.Sub(a)), Failed: l.failed()}
		for _, s := range l.Steps {
			width := max(s.Took, whole/500) // a step that took no time is seen too
			d.Bars = append(d.Bars, bar{ID: ui.CleanLine(s.ID), Class: s.Result, X: x(s.Start.Sub(from)), W: x(width),
				Start: seconds(s.Start.Sub(from)), Took: seconds(s.Took), Note: ui.CleanLine(s.Note)})
		}
		t.Lanes = append(t.Lanes, d)
	}
	return t
}

// compare orders lanes by what counts more.
func (l *lane) compare(o *lane) int {
	number := map[bool]int{true: 1}
	from, to := l.span()
	oFrom, oTo := o.span()
	return cmp.Or(cmp.Compare(number[l.failed()], number[o.failed()]), cmp.Compare(to.Sub(from), oTo.Sub(oFrom)))
}

func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
