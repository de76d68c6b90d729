package ui

import (
	"fmt"
	"regexp"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"nodejoin/steps"
)

// digests are shown by their first digits, as git does with commits.
var digests = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\b`)

// diffIndent is the column at which an attribute begins, counted from 0.
const diffIndent = 6

// diff prints how an attribute or a file differs, below its step.
func (w hostWriter) diff(d steps.Diff) {
	indent := strings.Repeat(" ", diffIndent)
	name := CleanLine(w.own.in(d.Name))
	have, want := w.own.in(d.Have), w.own.in(d.Want)
	switch {
	case d.Sensitive:
		fmt.Fprintf(w, "%s%s: (sensitive, differs)\n", indent, name)
	case !d.Text:
		short := func(s string) string {
			if s == "" {
				return "(none)"
			}
			if !w.Full {
				s = digests.ReplaceAllString(s, "$1")
			}
			return CleanLine(s)
		}
		text := paintWords(w.Color, Red, short(have)) + " -> " + paintWords(w.Color, Green, short(want))
		fmt.Fprintln(w, hang(indent+name+": ", text, diffIndent+2, w.Width))
	default:
		fmt.Fprintf(w, "%s%s:\n", indent, name)
		u := udiff.Unified("on the host", "in the plan", ensureNL(have), ensureNL(want))
		for _, l := range strings.Split(strings.TrimSuffix(u, "\n"), "\n") {
			w.diffLine(l)
		}
	}
}

// diffLine prints a line of a unified diff; what does not fit goes on in the next line below its text.
func (w hostWriter) diffLine(l string) {
	st := Style("")
	switch {
	case strings.HasPrefix(l, "---"), strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "@@"):
		st = Dim
	case strings.HasPrefix(l, "-"):
		st = Red
	case strings.HasPrefix(l, "+"):
		st = Green
	}
	text := []rune(CleanLineKeepIndent(l))
	indent := strings.Repeat(" ", diffIndent+2)
	for first := true; first || len(text) > 0; first = false {
		n := len(text)
		if w.Limit > 0 {
			n = min(n, max(w.Limit-len(indent), 24))
		}
		fmt.Fprintf(w, "%s%s\n", indent, Paint(w.Color, st, string(text[:n])))
		if text = text[n:]; first {
			indent += " " // below what follows the sign
		}
	}
}

func ensureNL(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		return s + "\n"
	}
	return s
}

// paintWords is Paint for text that is broken at its spaces later.
func paintWords(color bool, style Style, s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = Paint(color, style, w)
	}
	return strings.Join(words, " ")
}
