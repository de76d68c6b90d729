package ui

import (
	"fmt"
	"io"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
)

var undos = steps.UndosOf(kinds.Catalog())

// ThingWords names what a claim is about.
func ThingWords(key record.Key) string {
	if called := undos[key.Prefix].Called; called != "" {
		return called + " " + key.Name
	}
	return key.String()
}

// removals prints what the plan no longer names, grouped: what goes, what is restored,
// and what stays, with why. Folders and registry keys that go with the rest are counted.
func (w hostWriter) removals(h engine.HostReport) {
	if len(h.Removals.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "  "+Paint(w.Color, Bold, "no longer in the plan:"))
	empty := 0
	for _, r := range h.Removals.Items {
		switch implied := r.Key.Prefix == record.Directory || r.Key.Prefix == record.RegistryKey; {
		case implied && !w.Full && !r.Restored && r.Change.Action == steps.ActionRemove:
			empty++
		case implied && !w.Full && r.Change.NoOp(): // others use it
		default:
			w.removal(r)
		}
	}
	if empty > 0 {
		w.line(Red, "-", fmt.Sprintf("%d empty %s", empty, plural(empty, "folder")))
	}
}

func (w hostWriter) removal(r executor.Removal) {
	mark, text := marks[steps.ActionRemove], ThingWords(r.Key)
	style, symbol := mark.style, mark.symbol
	switch {
	case r.Change.NoOp(), r.Change.Action == steps.ActionForget:
		style, symbol, text = Dim, " ", text+" stays: "+r.Left
	case r.Restored:
		style, symbol, text = Yellow, "~", text+": as it was before nodejoin"
	case r.Key.Prefix == record.Service:
		text += ": it stops and is unregistered"
	}
	w.line(style, symbol, text)
}

// WriteObjects prints the objects of the cluster that the plan no longer names: what is deleted, or was, and what
// stays, with why.
func WriteObjects(w io.Writer, list []engine.ObjectRemoval, o PlanOptions) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, Paint(o.Color, Bold, "cluster")+", no longer in the plan:")
	for _, r := range list {
		style, symbol, text := Red, "-", r.String()
		if r.Left != "" || r.Err != nil {
			style, symbol, text = Dim, " ", text+" stays: "+r.Left
		}
		if r.Err != nil {
			text += r.Err.Error()
		}
		text = strings.ReplaceAll(Wrap(CleanLine(text), "", max(o.Width-4, 24)), "\n", "\n    ")
		fmt.Fprintf(w, "  %s %s\n", Paint(o.Color, style, symbol), text)
	}
	fmt.Fprintln(w)
}
