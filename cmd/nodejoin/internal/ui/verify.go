package ui

import (
	"fmt"
	"strings"

	"nodejoin/steps/verify"
)

// WriteTests prints the results node by node, and a closing line.
func WriteTests(t *Term, r *verify.Report) {
	out := t.Out
	count := map[verify.Status]int{}
	node := ""
	for _, res := range r.Results {
		if res.Node != node {
			if node != "" {
				fmt.Fprintln(out)
			}
			node = res.Node
			fmt.Fprintln(out, Paint(t.OutColor, Bold, CleanLine(node)))
		}
		count[res.Status]++
		t.writeTest(res)
	}
	if node != "" {
		fmt.Fprintln(out)
	}
	for _, n := range r.Removed {
		fmt.Fprintf(out, "Deleted what an earlier verify left: %s.\n", CleanLine(n))
	}
	for _, n := range r.Others {
		fmt.Fprintf(out, "Another verify is running: %s.\n", CleanLine(n))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d not possible here.\n", count[verify.Pass], count[verify.Fail],
		count[verify.NotPossible])
}

func (t *Term) writeTest(res verify.Result) {
	width := 0
	for _, f := range verify.Flows {
		width = max(width, len(f.Name))
	}
	text := map[verify.Status]string{
		verify.Pass:        Paint(t.OutColor, Green, "pass"),
		verify.Fail:        Paint(t.OutColor, Red, "FAIL"),
		verify.NotPossible: Paint(t.OutColor, Dim, "not possible here"),
	}[res.Status]
	if res.Detail != "" {
		text += ": " + CleanLine(res.Detail)
	}
	text = Wrap(text, "", max(t.Width()-width-4, 24))
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", width+4))
	fmt.Fprintf(t.Out, "  %-*s  %s\n", width, res.Flow, text)
}
