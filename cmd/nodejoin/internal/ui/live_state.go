package ui

import (
	"cmp"
	"slices"
	"time"

	"nodejoin/steps/event"
)

// Work is what a display knows of a run before it begins.
type Work struct {
	Title string   // "Applying"
	Hosts []string // in the plan's order
	// Steps are the steps of each host by id, with the time that each is likely to take: 0 where nothing is to be done,
	// negative where it is not known. nil = steps are not counted.
	Steps    map[string]map[string]time.Duration
	Parallel int // hosts at once, in the beginning
}

// liveHost is what a host does at the moment.
type liveHost struct {
	name        string
	phase       string // "connecting"; "" = it is at a step
	step, what  string // the step, and what it does or waits for
	since       time.Time
	done, total int64 // bytes of a transfer; total 0 = not known
	rate        rate
	waits       bool // it has not begun, or waits for another host
}

// rate measures a transfer over its last seconds.
type rate struct {
	at    []time.Time
	bytes []int64
}

const rateOver = 5 * time.Second

func (r *rate) add(now time.Time, n int64) {
	if k := len(r.bytes); k > 0 && n < r.bytes[k-1] {
		*r = rate{} // it began again
	}
	r.at, r.bytes = append(r.at, now), append(r.bytes, n)
	for len(r.at) > 2 && now.Sub(r.at[0]) > rateOver {
		r.at, r.bytes = r.at[1:], r.bytes[1:]
	}
}

// perSecond is 0 while it is not known.
func (r *rate) perSecond() float64 {
	n := len(r.at)
	if n < 2 || r.at[n-1].Sub(r.at[0]) < 100*time.Millisecond {
		return 0
	}
	return float64(r.bytes[n-1]-r.bytes[0]) / r.at[n-1].Sub(r.at[0]).Seconds()
}

// liveState is a run as far as its events tell. It is not safe for concurrent use.
type liveState struct {
	work    Work
	start   time.Time
	busy    []*liveHost    // in the plan's order
	place   map[string]int // of a host in the plan
	ended   []string
	failed  int // of ended
	reached map[string]map[string]bool
	steps   int // in all
	done    int // steps
}

func newLiveState(w Work, now time.Time) *liveState {
	s := &liveState{work: w, start: now, reached: map[string]map[string]bool{}, place: map[string]int{}}
	for i, name := range w.Hosts {
		s.place[name] = i
	}
	for _, of := range w.Steps {
		s.steps += len(of)
	}
	return s
}

// take notes an event.
func (s *liveState) take(e event.Event, now time.Time) {
	switch e := e.(type) {
	case event.HostState:
		s.hostState(e, now)
	case event.StepStarted:
		h := s.host(e.Host, now)
		*h = liveHost{name: h.name, step: e.Step, what: e.Title, since: now}
		if e.Action == "wait" && e.Reason != "" {
			h.what = e.Reason
		}
	case event.StepProgress:
		s.progress(e, now)
	case event.StepDone:
		s.stepDone(e, now)
	}
}

func (s *liveState) hostState(e event.HostState, now time.Time) {
	if e.State != "done" && e.State != "failed" {
		h := s.host(e.Host, now)
		*h = liveHost{name: h.name, phase: e.State, what: e.Detail, since: now, waits: e.State == "waiting"}
		return
	}
	s.busy = slices.DeleteFunc(s.busy, func(h *liveHost) bool { return h.name == e.Host })
	if slices.Contains(s.ended, e.Host) {
		return
	}
	s.ended = append(s.ended, e.Host)
	if e.State == "failed" {
		s.failed++
	}
}

func (s *liveState) progress(e event.StepProgress, now time.Time) {
	h := s.host(e.Host, now)
	if h.step != e.Step || h.phase != "" {
		*h = liveHost{name: h.name, step: e.Step, since: now}
	}
	if e.Note != "" {
		h.what = e.Note
	}
	if e.Done > 0 || e.Total > 0 {
		h.done, h.total = e.Done, e.Total
		h.rate.add(now, e.Done)
	}
}

func (s *liveState) stepDone(e event.StepDone, now time.Time) {
	if _, counts := s.work.Steps[e.Host][e.Step]; counts && e.Result != "failed" && !s.reached[e.Host][e.Step] {
		if s.reached[e.Host] == nil {
			s.reached[e.Host] = map[string]bool{}
		}
		s.reached[e.Host][e.Step] = true
		s.done++
	}
	// What the host did stays on the screen until it does something else.
	if h := s.host(e.Host, now); h.step == e.Step {
		*h = liveHost{name: h.name, step: h.step, what: h.what, since: now}
	}
}

// host is the busy host of that name.
func (s *liveState) host(name string, now time.Time) *liveHost {
	for _, h := range s.busy {
		if h.name == name {
			return h
		}
	}
	s.ended = slices.DeleteFunc(s.ended, func(n string) bool { return n == name })
	h := &liveHost{name: name, since: now}
	at, _ := slices.BinarySearchFunc(s.busy, s.place[name], func(b *liveHost, place int) int {
		return cmp.Compare(s.place[b.name], place)
	})
	s.busy = slices.Insert(s.busy, at, h)
	return h
}

// left estimates the time that the run still takes; 0 = not known. The steps that remain take as long as in earlier
// runs, and where none is known, as long as the steps of this run.
func (s *liveState) left(now time.Time) time.Duration {
	var sum, longest time.Duration
	known, unknown := 0, 0
	for host, of := range s.work.Steps {
		if slices.Contains(s.ended, host) {
			continue
		}
		var mine time.Duration
		for id, took := range of {
			switch {
			case took < 0 && !s.reached[host][id]:
				unknown++
			case took > 0:
				known++
				if !s.reached[host][id] {
					mine += max(took-s.running(host, id, now), 0)
				}
			}
		}
		sum, longest = sum+mine, max(longest, mine)
	}
	switch {
	case known > unknown:
		return max(longest, sum/time.Duration(max(s.work.Parallel, 1)))
	case len(s.ended) > 0 && s.done*10 >= s.steps && s.done > 0:
		return now.Sub(s.start) / time.Duration(s.done) * time.Duration(s.steps-s.done)
	}
	return 0
}

// running is how long a host is at a step.
func (s *liveState) running(host, step string, now time.Time) time.Duration {
	for _, h := range s.busy {
		if h.name == host && h.step == step {
			return now.Sub(h.since)
		}
	}
	return 0
}
