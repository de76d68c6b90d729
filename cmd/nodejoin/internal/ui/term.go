// Package ui renders runs and plans: displays of the event stream, plans with their
// diffs, diagnostics with their source. Text from hosts, plans and servers is untrusted
// and is cleaned before it is printed.
package ui

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"nodejoin/steps/hosttext"
)

// Term is where output goes: results on Out, progress and diagnostics on Err.
type Term struct {
	Out, Err io.Writer
	In       io.Reader
	// Color of each stream, by NO_COLOR, CLICOLOR_FORCE, TERM and whether it is a terminal.
	OutColor, ErrColor bool
	// InTTY and ErrTTY report whether a person can be asked, and sees progress.
	InTTY, ErrTTY bool
	// Moves: progress may move. Not so in CI, and with NO_COLOR, which asks for plain text.
	Moves bool
	mu    sync.Mutex
	moves moving // the display that is on Err; nil = none
	// UTF8: the terminal shows more than ASCII.
	UTF8 bool
}

// NewTerm describes the streams of the process, by its environment.
func NewTerm() *Term {
	env := os.Environ()
	color := func(f *os.File) bool {
		return os.Getenv("NO_COLOR") == "" && colorprofile.Detect(f, env) > colorprofile.ASCII &&
			(takesSequences(f) || os.Getenv("CLICOLOR_FORCE") != "")
	}
	t := &Term{
		Out: os.Stdout, Err: os.Stderr, In: os.Stdin,
		OutColor: color(os.Stdout), ErrColor: color(os.Stderr),
		InTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		ErrTTY: term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb",
		UTF8:   utf8Locale(),
	}
	t.Moves = t.ErrTTY && takesSequences(os.Stderr) && os.Getenv("NO_COLOR") == "" && !inCI()
	return t
}

// inCI reports whether a CI system runs this: all that are common set CI, to "true" or to 1.
func inCI() bool {
	v := os.Getenv("CI")
	return v != "" && v != "false" && v != "0"
}

// utf8Locale goes by POSIX: LC_ALL, LC_CTYPE and LANG, of which the first that is set counts.
func utf8Locale() bool {
	if runtime.GOOS == "windows" {
		return true // Go writes UTF-16 to a console
	}
	of := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(of, "utf-8") || strings.Contains(of, "utf8")
}

// Width is the width of the terminal behind Err in columns, 80 without a terminal.
func (t *Term) Width() int { return width(t.Err) }

// moving is a display that keeps the last lines of a terminal.
type moving interface {
	notice(text string) // prints above it
	abandon()           // gives the terminal back at once
}

// show notes the moving display that is on Err, nil for none.
func (t *Term) show(m moving) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves = m
}

// Notice prints a line on Err, above a moving display.
func (t *Term) Notice(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.moves != nil {
		t.moves.notice(text)
		return
	}
	fmt.Fprintln(t.Err, text)
}

// Abandon gives the terminal back before the process ends in the middle of something.
func (t *Term) Abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.moves != nil {
		t.moves.abandon()
	}
}

// Height is the height of the terminal behind Err in lines, 24 without a terminal.
func (t *Term) Height() int {
	if f, ok := t.Err.(interface{ Fd() uintptr }); ok {
		if _, n, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 24
}

// OutWidth is the width of the terminal behind Out in columns, 80 without a terminal.
func (t *Term) OutWidth() int { return width(t.Out) }

// OutLimit is how wide a line on Out may be: the width of the terminal, and without one
// 0, for no limit.
func (t *Term) OutLimit() int { return columns(t.Out) }

// Say writes a line to Out, and wraps it if that is a terminal.
func (t *Term) Say(format string, args ...any) {
	fmt.Fprintln(t.Out, Fit(fmt.Sprintf(format, args...), t.OutLimit()))
}

func width(w io.Writer) int {
	if n := columns(w); n > 0 {
		return n
	}
	return 80
}

// columns is the width of the terminal behind w, 0 without one.
func columns(w io.Writer) int {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 20 {
			return n
		}
	}
	return 0
}

// Style is an SGR number; the empty style prints plain.
type Style string

const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Cyan   Style = "36"
)

// Paint is s in a style if color is on.
func Paint(color bool, style Style, s string) string {
	if !color || style == "" || s == "" {
		return s
	}
	return "\x1b[" + string(style) + "m" + s + "\x1b[0m"
}

// Clean makes untrusted text safe to print: control characters (except line feeds and
// tabs) and characters that reorder text become escapes.
func Clean(s string) string { return hosttext.Clean(s) }

// CleanLine is Clean for text that must stay on one line.
func CleanLine(s string) string {
	return strings.ReplaceAll(Clean(strings.TrimSpace(s)), "\n", `\n`)
}

// Wrap breaks text at spaces to lines of at most width columns, keeping its own
// line feeds, and puts indent before each line.
func Wrap(s, indent string, width int) string {
	width = max(width-len(indent), 24)
	var out []string
	for _, line := range strings.Split(s, "\n") {
		cur := ""
		for _, w := range strings.Fields(line) {
			switch {
			case cur == "":
				cur = w
			case ansi.StringWidth(cur)+1+ansi.StringWidth(w) <= width:
				cur += " " + w
			default:
				out = append(out, indent+cur)
				cur = w
			}
		}
		out = append(out, strings.TrimRight(indent+cur, " "))
	}
	return strings.Join(out, "\n")
}

// Fit wraps each line to width columns (0 = no limit), except lines that start with a space.
func Fit(s string, width int) string {
	if width <= 0 {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.TrimLeft(l, " \t") == l {
			lines[i] = Wrap(l, "", width)
		}
	}
	return strings.Join(lines, "\n")
}

// Reflow wraps paragraphs to width columns: consecutive lines are joined, except lines
// that start with a space, which are not changed.
func Reflow(s string, width int) string {
	var out []string
	paragraph := ""
	flush := func() {
		if paragraph != "" {
			out = append(out, Wrap(paragraph, "", width))
		}
		paragraph = ""
	}
	for _, line := range strings.Split(s, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
			flush()
			out = append(out, "")
		case line[0] == ' ' || line[0] == '\t':
			flush()
			out = append(out, strings.TrimRight(line, " \t"))
		case paragraph == "":
			paragraph = text
		default:
			paragraph += " " + text
		}
	}
	flush()
	return strings.Join(out, "\n")
}

// Columns is a line of a list: a name, and its description from column pad on, wrapped.
func Columns(name, what string, pad, width int) string {
	indent := strings.Repeat(" ", pad+3)
	text := Wrap(what, indent, width)
	if n := ansi.StringWidth(name); n < pad+1 {
		return "  " + name + text[2+len(name):] + "\n"
	}
	return "  " + name + "\n" + text + "\n"
}

// Cut shortens a line to width columns.
func Cut(s string, width int) string {
	if width < 4 {
		return ansi.Truncate(s, max(width, 0), "")
	}
	return ansi.Truncate(s, width, "...")
}
