package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

// OneLine writes rows as Table does, with one line for each: if they do not fit into limit columns, it leaves out the
// columns of spare, one after the other, and then shortens the widest of the others; the first, which names the row,
// only where that is not enough.
func OneLine(w io.Writer, limit int, rows [][]string, spare ...int) error {
	wide := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			wide[i] = max(wide[i], ansi.StringWidth(cell))
		}
	}
	out := map[int]bool{}
	total := func() int {
		n := -2
		for i, of := range wide {
			if !out[i] {
				n += of + 2
			}
		}
		return n
	}
	const least = 16 // columns that a cell keeps
	for _, i := range spare {
		if over := total() - limit; limit > 0 && over > 0 && over > slices.Max(kept(wide, out))-least {
			out[i] = true
		}
	}
	widest := 1 + slices.Index(wide[1:], slices.Max(kept(wide, out)))
	for _, column := range []int{widest, 0} {
		if over := total() - limit; limit > 0 && over > 0 {
			wide[column] = max(wide[column]-over, min(least, wide[column]))
			for _, r := range rows {
				r[column] = Cut(r[column], wide[column])
			}
		}
	}
	lines := make([][]string, len(rows))
	for n, r := range rows {
		for i, cell := range r {
			if !out[i] {
				lines[n] = append(lines[n], cell)
			}
		}
	}
	return Table(w, 0, lines)
}

// kept are the widths of the columns after the first that are not left out.
func kept(wide []int, out map[int]bool) (list []int) {
	for i, n := range wide {
		if i > 0 && !out[i] {
			list = append(list, n)
		}
	}
	return list
}

// Table writes rows; the first row has the heads of the columns. If a line would be wider
// than limit columns (0 = no limit), each row becomes several lines: its first column, and
// below it the other columns with their heads.
func Table(w io.Writer, limit int, rows [][]string) error {
	wide := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			wide[i] = max(wide[i], ansi.StringWidth(cell))
		}
	}
	total := 2 * (len(wide) - 1)
	for _, n := range wide {
		total += n
	}
	if limit <= 0 || total <= limit {
		return aligned(w, rows)
	}
	pad := 0
	for _, head := range rows[0][1:] {
		pad = max(pad, ansi.StringWidth(head))
	}
	for _, r := range rows[1:] {
		if _, err := fmt.Fprintln(w, r[0]); err != nil {
			return err
		}
		for i, cell := range r[1:] {
			lines := strings.Split(Wrap(cell, "", limit-pad-4), "\n")
			head := rows[0][i+1] + strings.Repeat(" ", pad-ansi.StringWidth(rows[0][i+1]))
			fmt.Fprintf(w, "  %s  %s\n", head, strings.Join(lines, "\n"+strings.Repeat(" ", pad+4)))
		}
	}
	return nil
}

// aligned writes rows in columns of the width that a terminal gives their text, two spaces apart.
func aligned(w io.Writer, rows [][]string) error {
	t := table.New().Rows(rows...).Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).
		BorderLeft(false).BorderRight(false).BorderColumn(false).Wrap(false).
		StyleFunc(func(int, int) lipgloss.Style { return lipgloss.NewStyle().PaddingRight(2) })
	for line := range strings.Lines(t.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// minutes is the format of times in tables, which are in UTC.
const minutes = "2006-01-02T15:04Z"
