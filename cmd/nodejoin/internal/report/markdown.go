package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// Most is how long a comment of a pull request may be on GitHub, in characters.
const Most = 65536

// Page is a report in Markdown: what counts first, and below it sections that unfold.
type Page struct {
	Title, Summary string
	Sections       []Section
}

// Section is a part of a page that unfolds. Its text is shown as it is.
type Section struct {
	Title, Text string
	Open        bool
}

// Markdown writes a page of at most Most characters: what does not fit is left out, from the end, and that is said.
func Markdown(w io.Writer, p Page) error {
	const reserve = 300 // for what is said of the rest
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n", inline(p.Title), inline(cut(p.Summary, Most/4)))
	for i, s := range p.Sections {
		open := ""
		if s.Open {
			open = " open"
		}
		fence := fenceOf(s.Text)
		head := fmt.Sprintf("\n<details%s><summary>%s</summary>\n\n%stext\n", open, html(cut(s.Title, 1000)), fence)
		tail := "\n" + fence + "\n</details>\n"
		room := Most - reserve - utf8.RuneCountInString(b.String()) - utf8.RuneCountInString(head+tail)
		if room < 200 {
			fmt.Fprintf(&b, "\n%d more of %d are left out, as a comment takes %d characters.\n", len(p.Sections)-i,
				len(p.Sections), Most)
			break
		}
		b.WriteString(head + cut(strings.TrimRight(ui.Clean(s.Text), "\n"), room) + tail)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// FindingsPage is a page with a section for each finding; errors are open.
func FindingsPage(title, summary string, findings []Finding) Page {
	p := Page{Title: title, Summary: summary}
	for _, f := range findings {
		where := f.Subject
		if f.File != "" {
			where = strings.TrimPrefix(fmt.Sprintf("%s %s:%d", where, f.File, f.Line), " ")
		}
		text := f.Text
		if f.Why != "" {
			text += "\nwhy: " + f.Why
		}
		if f.Remedy != "" {
			text += "\nwhat to do: " + f.Remedy
		}
		p.Sections = append(p.Sections, Section{Title: fmt.Sprintf("%s: %s (%s)", f.Level, f.ID, where), Text: text,
			Open: f.Level == "error"})
	}
	return p
}

// cut shortens text to n characters, at the end of a line where there is one.
func cut(s string, n int) string {
	const mark = "\n[...]"
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)[:max(n-len(mark), 0)]
	text := string(r)
	if i := strings.LastIndexByte(text, '\n'); i > 0 {
		text = text[:i]
	}
	return text + mark
}

// fenceOf is a fence that the text does not hold.
func fenceOf(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence
}

// html is text of a host or a plan in HTML. GitHub makes links and notifications of plain text there, too.
func html(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "#", "#\u200b").Replace(mute(s))
}

// inline is text of a host or a plan in a paragraph: nothing of it is markup.
func inline(s string) string {
	return strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "<",
		"&lt;", "|", "\\|", "#", "\\#").Replace(mute(s))
}

// mute is one line in which no name notifies people, and no address is a link.
func mute(s string) string {
	return strings.NewReplacer("@", "@\u200b", "://", ":\u200b//", "www.", "www\u200b.").Replace(ui.CleanLine(s))
}
