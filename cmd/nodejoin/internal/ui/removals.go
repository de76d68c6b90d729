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

// writeRemovals prints what the plan no longer names, grouped: what goes, what is restored,
// and what stays, with why. Folders and registry keys that go with the rest are counted.
func writeRemovals(w io.Writer, h engine.HostReport, o PlanOptions) {
	if len(h.Removals.Items) == 0 {
		return
	}
	fmt.Fprintln(w, "  "+Paint(o.Color, Bold, "no longer in the plan:"))
	empty := 0
	for _, r := range h.Removals.Items {
		switch implied := r.Key.Prefix == record.Directory || r.Key.Prefix == record.RegistryKey; {
		case implied && !o.Full && !r.Restored && r.Change.Action == steps.ActionRemove:
			empty++
		case implied && !o.Full && r.Change.NoOp(): // others use it
		default:
			writeRemoval(w, r, o)
		}
	}
	if empty > 0 {
		fmt.Fprintf(w, "  %s %d empty %s\n", Paint(o.Color, Red, "-"), empty, plural(empty, "folder"))
	}
}

func writeRemoval(w io.Writer, r executor.Removal, o PlanOptions) {
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
	text = strings.ReplaceAll(Wrap(CleanLine(text), "", max(o.Width-4, 24)), "\n", "\n    ")
	fmt.Fprintf(w, "  %s %s\n", Paint(o.Color, style, symbol), text)
}
