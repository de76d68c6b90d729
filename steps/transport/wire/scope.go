package wire

import (
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/hosttext"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
)

// Scope is whom the events of one call may be about: the steps of a batch or, with Kind, things that the record
// of the machine names.
type Scope struct {
	Node  string
	Steps []steps.Spec
	Kind  string // "leave" or "rollback"; "" = events of Steps
}

func scopeOfSteps(req executor.Request) Scope { return Scope{Node: req.Node, Steps: req.Steps} }

// Limits on the events of one call. A wait sends an event every few seconds, a transfer ten a second.
const (
	perItem      = 4 // starts of one step, and ends of it
	perCall      = 20_000
	warnings     = 20
	burst        = 50
	progressRate = 100 * time.Millisecond // one more each
)

// admission passes on the events of one call.
type admission struct {
	Scope
	emit  func(event.Event)
	seen  map[string]int
	total int
	// tokens of progress; last is when some were given.
	tokens int
	last   time.Time
	begun  time.Time // the call
}

func (s Scope) admit(emit func(event.Event)) func(event.Event) {
	a := &admission{Scope: s, emit: emit, seen: map[string]int{}, tokens: burst, last: time.Now(), begun: time.Now()}
	return func(e event.Event) {
		if e = a.event(e); e != nil {
			emit(e)
		}
	}
}

// event is the event with the host of its connection, and with what the plan knows of its step; nil where it is
// about anything else, or one too many. A machine has no states: these are the engine's.
func (a *admission) event(e event.Event) event.Event {
	switch e := e.(type) {
	case event.StepStarted:
		s, ok := a.step(e.Step)
		if !ok || !a.action(e.Action) || !a.once("started "+e.Step) {
			return nil
		}
		e.Host, e.Kind, e.Title, e.Reason = a.Node, s.Kind, s.Title, line(e.Reason)
		return e
	case event.StepProgress:
		if _, ok := a.step(e.Step); !ok || e.Done < 0 || e.Total < 0 || !a.token() {
			return nil
		}
		e.Host, e.Note = a.Node, line(e.Note)
		return e
	case event.StepDone:
		s, ok := a.step(e.Step)
		result := slices.Contains([]string{"changed", "unchanged", "failed", "skipped"}, e.Result)
		if !ok || !result || !a.action(e.Action) || e.Duration < 0 || e.Attempt < 0 || !a.once("done "+e.Step) {
			return nil
		}
		e.Host, e.Source = a.Node, s.Source
		e.Duration = min(e.Duration, time.Since(a.begun)) // else it would hide the others in a timeline
		e.Summary, e.Detail, e.Remedy = line(e.Summary), lines(e.Detail), lines(e.Remedy)
		return e
	case event.Warning:
		if a.seen["warning"] >= warnings || !a.once("warning") {
			return nil
		}
		e.Host, e.Summary, e.Detail = a.Node, line(e.Summary), lines(e.Detail)
		return e
	}
	return nil
}

// step finds the step that an event names.
func (a *admission) step(id string) (steps.Spec, bool) {
	if a.Kind != "" {
		key, err := record.ParseKey(id)
		return steps.Spec{ID: id, Kind: a.Kind}, err == nil && knownPrefix(key.Prefix) && hosttext.Line(id) == id &&
			len(id) <= hosttext.Longest
	}
	i := slices.IndexFunc(a.Steps, func(s steps.Spec) bool { return s.ID == id })
	if i < 0 {
		return steps.Spec{}, false
	}
	return a.Steps[i], true
}

func (a *admission) action(s string) bool { return slices.Contains(actions, steps.Action(s)) }

// once counts what may come a few times.
func (a *admission) once(what string) bool {
	if a.total++; a.total > perCall {
		return false
	}
	a.seen[what]++
	return (what == "warning" || a.seen[what] <= perItem)
}

func (a *admission) token() bool {
	if n := int(time.Since(a.last) / progressRate); n > 0 {
		a.tokens, a.last = min(a.tokens+n, burst), time.Now()
	}
	a.tokens--
	a.tokens = max(a.tokens, -1)
	return a.tokens >= 0
}

// knownPrefix reports whether a kind claims things of the prefix.
func knownPrefix(p record.Prefix) bool {
	_, ok := kinds.Undos()[p]
	return ok
}

// actions are those that a change may have.
var actions = []steps.Action{steps.ActionNone, steps.ActionCreate, steps.ActionUpdate, steps.ActionDelete,
	steps.ActionRestart,
	steps.ActionStart, steps.ActionReboot, steps.ActionWait, steps.ActionUnknown}

// line is a machine's text on one line, lines one that may have several.
func line(s string) string  { return hosttext.Short(hosttext.Line(s)) }
func lines(s string) string { return hosttext.Short(hosttext.Clean(s)) }
