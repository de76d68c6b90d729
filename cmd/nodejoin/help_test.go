package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
)

// TestHelpFits: the help of every command fits narrow and wide terminals. Commands and
// flag names are not split across lines.
func TestHelpFits(t *testing.T) {
	root := newRoot(&app{term: &ui.Term{}}, nil)
	all := append([]*cobra.Command{root}, root.Commands()...)
	if len(all) < 15 {
		t.Fatalf("%d commands", len(all))
	}
	for _, c := range all {
		if c.Name() == "completion" { // cobra's texts
			continue
		}
		c.InitDefaultHelpFlag()
		text := c.Long
		if text == "" {
			text = c.Short
		}
		for _, width := range []int{60, 80, widestHelp} {
			var b bytes.Buffer
			writeHelp(&b, c, text, width)
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				typed := strings.HasPrefix(strings.TrimSpace(line), "nodejoin ") || strings.Contains(c.Example, line)
				if len([]rune(line)) > width && !typed {
					t.Errorf("%s, %d columns: a line has %d: %s", c.CommandPath(), width, len([]rune(line)), line)
				}
			}
			// Wrapping loses nothing.
			for _, word := range strings.Fields(text + " " + c.Example) {
				if !strings.Contains(b.String(), word) {
					t.Errorf("%s, %d columns: no %q", c.CommandPath(), width, word)
				}
			}
		}
	}
}
