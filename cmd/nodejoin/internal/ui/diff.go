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

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// columnsOf is how many columns text takes.
func columnsOf(s string) int { return len([]rune(escapes.ReplaceAllString(s, ""))) }

// joint stands for a space at which hang breaks no line.
const joint = "\x1f"

// hang is text after a head, broken at spaces to width columns; the further lines start at column in. A word that is
// longer than a line is broken too.
func hang(head, text string, in, width int) string {
	const least = 16
	indent := strings.Repeat(" ", in)
	var out strings.Builder
	out.WriteString(head)
	at := columnsOf(head)
	fresh := true
	for _, word := range strings.Fields(text) {
		plain, on, off := []rune(escapes.ReplaceAllString(word, "")), "", ""
		if escapes.MatchString(word) {
			on, off = escapes.FindString(word), "\x1b[0m"
		}
		switch {
		case fresh:
		case at+1+len(plain) <= width:
			out.WriteByte(' ')
			at++
		default:
			out.WriteString("\n" + indent)
			at = in
		}
		for room := max(width-at, least); len(plain) > room; room = max(width-at, least) {
			out.WriteString(on + string(plain[:room]) + off + "\n" + indent)
			plain, at = plain[room:], in
		}
		out.WriteString(on + string(plain) + off)
		at += len(plain)
		fresh = false
	}
	return strings.ReplaceAll(strings.TrimRight(out.String(), " "), joint, " ")
}
