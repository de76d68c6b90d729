package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// run of text in one style.
type span struct {
	class string // b (bold), d (dim), and c1 to c7 for a colour of ANSI; "" = plain
	text  string
}

// line of a screen, without spaces at its end.
type line []span

func (l line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return b.String()
}

// terminal is a window in which programs run.
type terminal struct {
	size
	dir      string
	env      []string
	e        *vt.SafeEmulator
	tty      *os.File
	cmd      *exec.Cmd
	finished chan struct{} // all that the program wrote is on the screen
}

func newTerminal(s size, dir string, env []string) *terminal {
	t := &terminal{size: s, dir: dir, env: env, e: vt.NewSafeEmulator(s.width, s.height)}
	t.e.SetScrollbackSize(10_000)
	return t
}

// start types a command and starts it; program is the path of its first word.
func (t *terminal) start(ctx context.Context, program string, args ...string) error {
	_, _ = t.e.Write([]byte("$ nodejoin " + strings.Join(args, " ") + "\r\n"))
	t.cmd = exec.CommandContext(ctx, program, args...)
	t.cmd.Dir, t.cmd.Env = t.dir, t.env
	tty, err := pty.StartWithSize(t.cmd, &pty.Winsize{Rows: uint16(t.height), Cols: uint16(t.width)})
	if err != nil {
		return err
	}
	t.tty, t.finished = tty, make(chan struct{})
	go func() {
		defer close(t.finished)
		// Linux ends it with EIO once the program and its children have closed the terminal.
		_, _ = io.Copy(t.e, tty)
	}()
	return nil
}

// press is a key or a line of keys.
func (t *terminal) press(keys string) error {
	_, err := t.tty.WriteString(keys)
	return err
}

// longest bounds each wait for a screen or the end of a program.
const longest = 2 * time.Minute

// until waits for a screen on which all patterns are.
func (t *terminal) until(patterns ...string) error {
	for end := time.Now().Add(longest); ; time.Sleep(20 * time.Millisecond) {
		screen, missing := text(t.lines()), ""
		for _, p := range patterns {
			if !regexp.MustCompile("(?m)" + p).MatchString(screen) {
				missing = p
				break
			}
		}
		if missing == "" {
			return nil
		}
		select {
		case <-t.finished:
			end = time.Time{}
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("the screen does not come to have %q:\n%s", missing, screen)
		}
	}
}

// wait waits for the end of the program, which must have an exit code.
func (t *terminal) wait(code int) error {
	select {
	case <-t.finished:
	case <-time.After(longest):
		_ = t.cmd.Process.Kill()
		return fmt.Errorf("%s does not end:\n%s", t.cmd, text(t.lines()))
	}
	err := t.cmd.Wait()
	_ = t.tty.Close()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if have := t.cmd.ProcessState.ExitCode(); have != code {
		return fmt.Errorf("%s: exit code %d, not %d:\n%s", t.cmd, have, code, text(t.lines()))
	}
	return nil
}

// lines are all that was printed, with what has scrolled away.
func (t *terminal) lines() []line {
	var out []line
	for y := range t.e.ScrollbackLen() {
		out = append(out, t.line(func(x int) *uv.Cell { return t.e.ScrollbackCellAt(x, y) }))
	}
	for y := range t.height {
		out = append(out, t.line(func(x int) *uv.Cell { return t.e.CellAt(x, y) }))
	}
	for len(out) > 0 && len(out[len(out)-1]) == 0 {
		out = out[:len(out)-1]
	}
	return out
}

// last are the lines that a window of this height shows.
func (t *terminal) last() []line {
	all := t.lines()
	return all[max(len(all)-t.height, 0):]
}

func (t *terminal) line(at func(x int) *uv.Cell) line {
	var l line
	for x := 0; x < t.width; x++ {
		c, class, content := at(x), "", " "
		if c != nil && c.Content != "" {
			class, content = classOf(c.Style), c.Content
			x += max(c.Width-1, 0)
		}
		if content == " " {
			class = ""
		}
		if n := len(l); n > 0 && (l[n-1].class == class || content == " ") {
			l[n-1].text += content
			continue
		}
		l = append(l, span{class, content})
	}
	for len(l) > 0 {
		last := &l[len(l)-1]
		if last.text = strings.TrimRight(last.text, " "); last.text != "" {
			break
		}
		l = l[:len(l)-1]
	}
	return l
}

func classOf(s uv.Style) string {
	var of []string
	if s.Attrs&uv.AttrBold != 0 {
		of = append(of, "b")
	}
	if s.Attrs&uv.AttrFaint != 0 {
		of = append(of, "d")
	}
	if c, ok := s.Fg.(ansi.BasicColor); ok {
		of = append(of, fmt.Sprintf("c%d", c%8))
	}
	return strings.Join(of, " ")
}

// text is what a file of lines has.
func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}
