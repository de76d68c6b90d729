package ui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"nodejoin/steps/event"
)

// line is the line for an event; "" = none.
func line(e event.Event, color, quiet bool) string {
	switch e := e.(type) {
	case event.HostState:
		if quiet || slices.Contains([]string{"agent_sent", "checking", "applying", "done", "failed"}, e.State) {
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
	"agent_sent":     "the agent was sent",
	"agent_in_shell": "the agent runs in the WinRM shell; a cut connection ends it in the middle of a step",
	"reconnecting":   "connection lost, connecting again",
	"moved_foreign":  "what nodejoin did not make lay in its folder's place, and was moved away"}

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
