package ui

import (
	"fmt"
	"io"

	"nodejoin/steps/event"
)

// Display shows the events of a run. Close ends it, and must be called before anything
// else is printed to the same stream.
type Display interface {
	Emit(event.Event)
	Close()
}

// NewDisplay makes the display of a mode: "auto" (moving on a terminal, else plain),
// "plain", or "quiet" (failures only). For --json use NewJSON.
func NewDisplay(mode string, t *Term, w Work) Display {
	switch {
	case mode == "quiet":
		return &lines{w: t.Err, color: t.ErrColor, quiet: true}
	case mode == "auto" && t.Moves:
		return newLive(t, w)
	}
	return &lines{w: t.Err, color: t.ErrColor}
}

// lines prints one line per event.
type lines struct {
	w     io.Writer
	color bool
	quiet bool
}

func (l *lines) Emit(e event.Event) {
	if s := line(e, l.color, l.quiet); s != "" {
		fmt.Fprintln(l.w, s)
	}
}

func (l *lines) Close() {}
