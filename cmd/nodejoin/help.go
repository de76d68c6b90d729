package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// widestHelp is the width of help on a wide terminal: longer lines are hard to read.
const widestHelp = 100

// wrapHelp makes the help of all commands fit the terminal, or 80 columns without one.
func (a *app) wrapHelp(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		text := c.Long
		if text == "" {
			text = c.Short
		}
		writeHelp(c.OutOrStdout(), c, text, min(a.term.OutWidth(), widestHelp))
	})
}

func writeHelp(w io.Writer, c *cobra.Command, text string, width int) {
	fmt.Fprintf(w, "%s\n\nUsage:\n", ui.Reflow(strings.TrimSpace(text), width))
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s", examples(c.Example, width))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nAvailable Commands:\n")
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() || s.Name() == "help" {
				fmt.Fprint(w, ui.Columns(s.Name(), s.Short, c.Commands()[0].NamePadding(), width))
			}
		}
	}
	if flags := c.LocalFlags().FlagUsagesWrapped(width); flags != "" {
		fmt.Fprintf(w, "\nFlags:\n%s\n", strings.TrimRight(flags, " \n"))
	}
	if c.HasAvailableSubCommands() {
		more := `Use "` + c.CommandPath() + ` [command] --help" for more information about a command.`
		fmt.Fprintf(w, "\n%s\n", ui.Reflow(more, width))
	}
}

// examples are lines of a command and its purpose, two or more spaces apart. If a line is
// too wide, all purposes are written below their commands.
func examples(text string, width int) string {
	var lines [][2]string
	narrow := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		command, what, _ := strings.Cut(line, "  ")
		lines = append(lines, [2]string{command, strings.TrimSpace(what)})
		narrow = narrow || len([]rune(line))+2 > width
	}
	if !narrow {
		return strings.TrimRight(text, "\n") + "\n"
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "  %s\n", l[0])
		if l[1] != "" {
			fmt.Fprintf(&b, "%s\n", ui.Wrap(l[1], "      ", width))
		}
	}
	return b.String()
}
