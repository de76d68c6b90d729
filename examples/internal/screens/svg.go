package main

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The cells of a picture, in units of SVG, and its border.
const (
	cellWidth  = 8.4
	cellHeight = 18
	border     = 14
)

// look has the colours of a picture, for light and dark, each with a contrast of 4.5 or more (WCAG 2.2, 1.4.3).
const look = `
text { font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
fill: #1f2328; white-space: pre }
rect { fill: #f6f8fa; stroke: #d0d7de }
.b { font-weight: 700 }
.d { fill: #59636e }
.c1 { fill: #c21c26 } .c2 { fill: #17692e } .c3 { fill: #855a00 }
.c4 { fill: #0759c2 } .c5 { fill: #7741c9 } .c6 { fill: #0f6674 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
rect { fill: #0d1117; stroke: #3d444d }
.d { fill: #9198a1 }
.c1 { fill: #ff8a80 } .c2 { fill: #56d364 } .c3 { fill: #e3b341 }
.c4 { fill: #79c0ff } .c5 { fill: #d2a8ff } .c6 { fill: #56d4dd }
}
`

// svg draws lines as a picture. It needs no font of its own: each span has the width that its cells have. A line of
// the screen is a line of the file.
func svg(title string, lines []line) string {
	columns := 60
	for _, l := range lines {
		columns = max(columns, ansi.StringWidth(l.String()))
	}
	width, height := 2*border+cellWidth*float64(columns), 2*border+len(lines)*cellHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" xml:space="preserve" width="%.0f" height="%d" `+
		`viewBox="0 0 %.0f %d">`, width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title><style>%s</style>\n", escaped(title), strings.ReplaceAll(look, "\n", " "))
	fmt.Fprintf(&b, `<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="8"/>`+"\n", width-1, height-1)
	for y, l := range lines {
		x := 0
		for _, s := range l {
			wide := ansi.StringWidth(s.text)
			indent := wide - ansi.StringWidth(strings.TrimLeft(s.text, " "))
			shown := strings.TrimSpace(s.text)
			if n := ansi.StringWidth(shown); n > 0 {
				class := ""
				if s.class != "" {
					class = fmt.Sprintf(` class="%s"`, s.class)
				}
				fmt.Fprintf(&b, `<text%s x="%.1f" y="%d" textLength="%.1f">%s</text>`, class,
					border+cellWidth*float64(x+indent),
					border+y*cellHeight+13, cellWidth*float64(n), escaped(shown))
			}
			x += wide
		}
		b.WriteString("\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes all
	return b.String()
}
