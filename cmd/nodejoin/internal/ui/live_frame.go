package ui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// frame draws what a run does at the moment, in lines of less than width columns and at most height lines.
type frame struct {
	width, height int
	color, ascii  bool
}

// draw is the header, a line for each host at work, and lines for those that wait and those that have ended.
func (f frame) draw(s *liveState, now time.Time) []string {
	out := []string{f.header(s, now)}
	var work []*liveHost
	var wait []string
	why := ""
	for _, h := range s.busy {
		if h.waits {
			wait, why = append(wait, h.name), cmp.Or(why, h.what)
		} else {
			work = append(work, h)
		}
	}
	// Half the window: once the window is half as wide, a frame has twice as many lines, and what scrolls away cannot
	// be erased. Ten hosts at once are usual, and have a line each in every window.
	room := max(min(f.height-5, max(f.height/2-3, 10)), 1)
	if len(work) > room {
		room--
	}
	names := 0
	for _, h := range work[:min(room, len(work))] {
		names = max(names, min(ansi.StringWidth(CleanLine(h.name)), f.width/4))
	}
	for i, h := range work {
		if i == room {
			out = append(out, f.paint(Dim, fmt.Sprintf("and %d more at work", len(work)-room)))
			break
		}
		out = append(out, f.host(s, h, names, now))
	}
	if len(wait) > 0 {
		text := "waiting: " + f.names(wait)
		if why != "" {
			text += ": " + CleanLine(why)
		}
		out = append(out, f.paint(Dim, f.cut(text, f.width-1)))
	}
	if len(s.ended) > 0 {
		out = append(out, f.paint(Dim, f.cut("ended: "+f.names(s.ended), f.width-1)))
	}
	return out
}

func (f frame) names(list []string) string {
	clean := make([]string, len(list))
	for i, n := range list {
		clean[i] = CleanLine(n)
	}
	return FewNames(clean, 4)
}

// header is the progress of the run, its time so far and the time that it will probably still take.
func (f frame) header(s *liveState, now time.Time) string {
	hosts := max(len(s.work.Hosts), len(s.busy)+len(s.ended))
	text := f.paint(Bold, s.work.Title) + fmt.Sprintf("  %d/%d %s", len(s.ended), hosts, plural(hosts, "host"))
	part, of := len(s.ended), hosts
	if s.steps > 0 {
		text += fmt.Sprintf("  %d/%d %s", s.done, s.steps, plural(s.steps, "step"))
		part, of = s.done, s.steps
	}
	if s.failed > 0 {
		text += "  " + f.paint(Red, fmt.Sprintf("%d failed", s.failed))
	}
	times := clock(now.Sub(s.start))
	if left := clock(s.left(now)); left != "0s" {
		about := ", about " + left + " left"
		if ansi.StringWidth(text+"  "+times+about) >= f.width {
			about = ", ~" + left
		}
		times += about
	}
	bar := ""
	if room := f.width - 1 - ansi.StringWidth(text) - ansi.StringWidth(times) - 4; room >= 8 && of > 0 {
		bar = f.bar(float64(part)/float64(of), min(room, 30)) + "  "
	}
	return f.cut(text+"  "+bar+f.paint(Dim, times), f.width-1)
}

// host is what one host does.
func (f frame) host(s *liveState, h *liveHost, names int, now time.Time) string {
	name := f.cut(CleanLine(h.name), names)
	name += strings.Repeat(" ", max(names-ansi.StringWidth(name), 0))
	what := CleanLine(h.step)
	if h.phase != "" {
		what = cmp.Or(hostStates[h.phase], CleanLine(h.phase))
	}
	if h.what != "" {
		what += "  " + CleanLine(h.what)
	}
	room := f.width - 1 - names - 2
	right := f.right(h, now, room)
	if of := len(s.work.Steps[h.name]); of > 0 && room-ansi.StringWidth(right) > 40 {
		right = f.paint(Dim, fmt.Sprintf("%d/%d", len(s.reached[h.name]), of)) + "  " + right
	}
	room -= ansi.StringWidth(right) + 2
	what = f.cut(what, room)
	return f.paint(Cyan, name) + "  " + what + strings.Repeat(" ", max(room-ansi.StringWidth(what), 0)) + "  " + right
}

// right is the end of a host's line: how far a transfer is, or since when the host is at what it does. What counts
// least is left out where there is no room.
func (f frame) right(h *liveHost, now time.Time, room int) string {
	since := f.paint(Dim, clock(now.Sub(h.since)))
	if h.done == 0 && h.total == 0 {
		return since
	}
	if h.total == 0 {
		return Bytes(h.done) + "  " + since
	}
	amount := Bytes(h.done) + "/" + Bytes(h.total)
	speed, left := "", ""
	if per := h.rate.perSecond(); per > 0 {
		speed = "  " + Bytes(int64(per)) + "/s"
		left = "  " + clock(time.Duration(float64(h.total-h.done)/per*float64(time.Second))) + " left"
	}
	const least = 24 // columns for the step
	for _, wide := range []int{20, 12, 8} {
		bar := f.bar(float64(h.done)/float64(h.total), wide) + "  "
		for _, text := range []string{bar + amount + speed + left, bar + amount + left} {
			if room-ansi.StringWidth(text) >= least {
				return text
			}
		}
	}
	return f.bar(float64(h.done)/float64(h.total), 8) + left
}

// bar is filled to a part from 0 to 1.
func (f frame) bar(part float64, wide int) string {
	full, rest := "━", "─"
	if f.ascii {
		full, rest = "#", "-"
	}
	n := int(min(max(part, 0), 1) * float64(wide))
	return f.paint(Green, strings.Repeat(full, n)) + f.paint(Dim, strings.Repeat(rest, wide-n))
}

func (f frame) paint(style Style, s string) string { return Paint(f.color, style, s) }

func (f frame) cut(s string, width int) string { return ansi.Truncate(s, max(width, 0), "...") }

// clock is a time for people that see it run: "0s", "59s", "3m20s", "1h05m".
func clock(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
