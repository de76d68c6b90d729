package ui

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes rows; the first row has the heads of the columns. If a line would be wider
// than limit columns (0 = no limit), each row becomes several lines: its first column, and
// below it the other columns with their heads.
func Table(w io.Writer, limit int, rows [][]string) error {
	wide := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			wide[i] = max(wide[i], len([]rune(cell)))
		}
	}
	total := 2 * (len(wide) - 1)
	for _, n := range wide {
		total += n
	}
	if limit <= 0 || total <= limit {
		t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
		for _, r := range rows {
			fmt.Fprintln(t, strings.Join(r, "\t"))
		}
		return t.Flush()
	}
	pad := 0
	for _, head := range rows[0][1:] {
		pad = max(pad, len([]rune(head)))
	}
	for _, r := range rows[1:] {
		if _, err := fmt.Fprintln(w, r[0]); err != nil {
			return err
		}
		for i, cell := range r[1:] {
			lines := strings.Split(Wrap(cell, "", limit-pad-4), "\n")
			fmt.Fprintf(w, "  %-*s  %s\n", pad, rows[0][i+1], strings.Join(lines, "\n"+strings.Repeat(" ", pad+4)))
		}
	}
	return nil
}
