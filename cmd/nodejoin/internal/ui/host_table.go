package ui

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

// HostResult is what a run did on one host.
type HostResult struct {
	Node               string
	Changed, Unchanged int // steps
	Took               time.Duration
	Result             string // "done", "failed"
	Reason             string // why it is not done; "" = it is
}

// eachHost is how many hosts have a line each. Of more, those with the same result share one.
const eachHost = 20

// WriteHosts writes the results of hosts as a table of at most limit columns, 0 = no limit.
func WriteHosts(w io.Writer, hosts []HostResult, color bool, limit int) error {
	return OneLine(w, limit, HostRows(hosts, color), 2, 3, 1)
}

// HostRows is the table of the results of hosts, with its head.
func HostRows(hosts []HostResult, color bool) [][]string {
	type line struct {
		HostResult
		names    []string
		min, max time.Duration
	}
	var lines []*line
	by := map[HostResult]*line{}
	for _, h := range hosts {
		key := h
		key.Node, key.Took = "", 0
		l := by[key]
		if l == nil || len(hosts) <= eachHost {
			l = &line{HostResult: h, min: h.Took, max: h.Took}
			by[key] = l
			lines = append(lines, l)
		}
		l.names = append(l.names, CleanLine(h.Node))
		l.min, l.max = min(l.min, h.Took), max(l.max, h.Took)
	}
	rows := [][]string{{"HOST", "CHANGED", "UNCHANGED", "TOOK", "RESULT"}}
	for _, l := range lines {
		took := short(l.min)
		if to := short(l.max); to != took {
			took += " to " + to
		}
		result := Paint(color, Green, l.Result)
		if l.Reason != "" {
			result = Paint(color, Red, l.Result) + ": " + CleanLine(l.Reason)
		}
		name := FewNames(l.names, 4)
		if len(l.names) > 2 {
			name += fmt.Sprintf(" (%d)", len(l.names))
		}
		rows = append(rows, []string{name, strconv.Itoa(l.Changed), strconv.Itoa(l.Unchanged), took, result})
	}
	return rows
}
