package ui

import (
	"bytes"
	"io"
	"os"
	"sync"

	"github.com/charmbracelet/x/ansi"
)

// holdStill prepares a terminal for moving lines: its cursor is hidden, and keys are not shown. out is where the lines
// go; release restores the terminal.
//
// Between two frames the cursor stands at the first cell of the frame. A terminal that gets narrower wraps lines and
// keeps the cursor at its cell, so this is the only place from which the old frame can be erased: from its end, nobody
// knows how many lines it has by then (ultraviolet's issue 145). bubbletea leaves the cursor there only if it may show
// it.
func holdStill(w io.Writer) (out io.Writer, release func()) {
	// A terminal that takes nothing is no reason to fail: the run goes on.
	show := func(sequence string) { _, _ = io.WriteString(w, sequence) }
	show(ansi.HideCursor)
	f, ok := w.(*os.File)
	if !ok {
		return stillWriter{w}, sync.OnceFunc(func() { show(ansi.ShowCursor) })
	}
	echo := stopEcho(f)
	return stillFile{f}, sync.OnceFunc(func() {
		echo()
		show(ansi.ShowCursor)
	})
}

// stillWriter does not let the cursor be shown.
type stillWriter struct{ to io.Writer }

func (s stillWriter) Write(p []byte) (int, error) {
	if _, err := s.to.Write(bytes.ReplaceAll(p, []byte(ansi.ShowCursor), nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// stillFile is a stillWriter that bubbletea knows as a terminal.
type stillFile struct{ *os.File }

// Write is stillWriter's.
func (s stillFile) Write(p []byte) (int, error) { return stillWriter{s.File}.Write(p) }
