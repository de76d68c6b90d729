package main

import (
	"fmt"
	"strings"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/verify"
)

// writeTests prints the results node by node, and a closing line.
func (a *app) writeTests(r *verify.Report) {
	out := a.term.Out
	count := map[verify.Status]int{}
	node := ""
	for _, res := range r.Results {
		if res.Node != node {
			if node != "" {
				fmt.Fprintln(out)
			}
			node = res.Node
			fmt.Fprintln(out, ui.Paint(a.term.OutColor, ui.Bold, ui.CleanLine(node)))
		}
		count[res.Status]++
		a.writeTest(res)
	}
	if node != "" {
		fmt.Fprintln(out)
	}
	for _, n := range r.Removed {
		fmt.Fprintf(out, "Deleted what an earlier verify left: %s.\n", ui.CleanLine(n))
	}
	for _, n := range r.Others {
		fmt.Fprintf(out, "Another verify is running: %s.\n", ui.CleanLine(n))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d not possible here.\n", count[verify.Pass], count[verify.Fail],
		count[verify.NotPossible])
}

func (a *app) writeTest(res verify.Result) {
	width := 0
	for _, f := range verify.Flows {
		width = max(width, len(f.Name))
	}
	text := map[verify.Status]string{
		verify.Pass:        ui.Paint(a.term.OutColor, ui.Green, "pass"),
		verify.Fail:        ui.Paint(a.term.OutColor, ui.Red, "FAIL"),
		verify.NotPossible: ui.Paint(a.term.OutColor, ui.Dim, "not possible here"),
	}[res.Status]
	if res.Detail != "" {
		text += ": " + ui.CleanLine(res.Detail)
	}
	text = ui.Wrap(text, "", max(a.term.Width()-width-4, 24))
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", width+4))
	fmt.Fprintf(a.term.Out, "  %-*s  %s\n", width, res.Flow, text)
}
