package ui

import (
	"fmt"
	"io"

	"nodejoin/steps"
)

// marks are the signs of actions at the start of a line.
var marks = map[steps.Action]struct {
	symbol string
	style  Style
	verb   string
}{
	steps.ActionCreate:  {"+", Green, "create"},
	steps.ActionUpdate:  {"~", Yellow, "update"},
	steps.ActionDelete:  {"-", Red, "delete"},
	steps.ActionRemove:  {"-", Red, "remove"},
	steps.ActionForget:  {" ", Dim, "forget"},
	steps.ActionRestart: {"!", Yellow, "restart"},
	steps.ActionStart:   {">", Green, "start"},
	steps.ActionReboot:  {"!", Red, "reboot"},
	steps.ActionWait:    {".", Cyan, "wait"},
	steps.ActionUnknown: {"?", Blue, "not known yet"},
}

// PlanOptions say how a plan is shown.
type PlanOptions struct {
	Color bool
	Width int
	Limit int  // lines of files are broken at this column; 0 = they stay whole
	Full  bool // every host by itself, contents of new files, and steps without changes
}

// hostWriter prints what would change on hosts of one group.
type hostWriter struct {
	io.Writer
	PlanOptions

	own *words // replaced in all text
}

// line prints text below a host, after a symbol.
func (w hostWriter) line(style Style, symbol, text string) {
	fmt.Fprintln(w, hang("  "+Paint(w.Color, style, symbol)+" ", CleanLine(w.own.in(text)), 4, w.Width))
}
