package ui

import (
	"fmt"
	"io"

	"nodejoin/plan/block"
)

// DataRows is the table of what data blocks have read, with its head.
func DataRows(list []block.Data) [][]string {
	rows := [][]string{{"DATA", "SHA256", "FROM"}}
	for _, d := range list {
		digest := "(sensitive)"
		if !d.Sensitive {
			digest = d.SHA256[:12]
		}
		rows = append(rows, []string{CleanLine(d.Address), digest, CleanLine(d.From)})
	}
	return rows
}

// WriteData writes the table of what data blocks have read, and nothing if there are none.
func WriteData(w io.Writer, list []block.Data, limit int) {
	if len(list) > 0 {
		_ = OneLine(w, limit, DataRows(list))
		fmt.Fprintln(w)
	}
}
