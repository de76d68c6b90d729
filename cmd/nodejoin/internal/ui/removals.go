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

// ThingWords names what a claim is about.
func ThingWords(key record.Key) string {
	if called := kinds.Undos()[key.Prefix].Called; called != "" {
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
	empty, values := 0, valuesOf(h.Removals.Items)
	for _, r := range h.Removals.Items {
		key, _ := removedValue(r)
		switch {
		case !w.Full && implied(r) && !r.Restored && r.Change.Action == steps.ActionRemove:
			empty++
		case !w.Full && implied(r) && r.Change.NoOp(): // others use it
		case !w.Full && values[key] > fewValues:
			w.line(Red, "-", fmt.Sprintf("%d registry values of %s", values[key], key))
			values[key] = -1
		case !w.Full && values[key] < 0: // counted
		default:
			w.removal(r)
		}
	}
	if empty > 0 {
		w.line(Red, "-", fmt.Sprintf("%d empty %s", empty, plural(empty, "folder")))
	}
}

// implied reports whether a thing goes with others: it is a folder or a registry key that nodejoin made for them.
func implied(r executor.Removal) bool {
	return r.Key.Prefix == record.Directory || r.Key.Prefix == record.RegistryKey
}

// fewValues is up to how many values of a registry key are shown one by one.
const fewValues = 3

// removedValue is the registry key of a value that is removed; false for anything else.
func removedValue(r executor.Removal) (key string, ok bool) {
	i := strings.LastIndexByte(r.Key.Name, '\\')
	if r.Key.Prefix != record.Registry || r.Restored || r.Change.Action != steps.ActionRemove || i < 0 {
		return "", false
	}
	return r.Key.Name[:i], true
}

// valuesOf counts the values that are removed of each registry key.
func valuesOf(items []executor.Removal) map[string]int {
	out := map[string]int{}
	for _, r := range items {
		if key, ok := removedValue(r); ok {
			out[key]++
		}
	}
	return out
}

func (w hostWriter) removal(r executor.Removal) {
	mark, text := marks[steps.ActionRemove], ThingWords(r.Key)
	style, symbol := mark.style, mark.symbol
	switch {
	case r.Change.NoOp(), r.Change.Action == steps.ActionForget:
		style, symbol, text = Dim, " ", text+" stays: "+r.Left
	case r.Restored:
		style, symbol, text = Yellow, "~", text+": as it was before nodejoin"
	case kinds.Undos()[r.Key.Prefix].Means != "":
		text += ": " + kinds.Undos()[r.Key.Prefix].Means
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
		switch {
		case r.Finishes != "":
			style, symbol, text = Yellow, "~", text+": "+r.Finishes
		case r.Left != "" || r.Err != nil:
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
