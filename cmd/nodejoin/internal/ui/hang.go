package ui

import (
	"regexp"
	"strings"
)

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
