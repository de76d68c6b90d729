package ui

import (
	"strings"

	"nodejoin/steps/engine"
)

// PlanGroup is hosts with the same changes, as text.
type PlanGroup struct{ Head, Text string }

// PlanGroups are the groups of a plan as WritePlan prints them, and the closing lines.
func PlanGroups(r *engine.Report, o PlanOptions) (out []PlanGroup, closing string) {
	hosts := 0
	for _, g := range groups(r.Hosts, o) {
		var head strings.Builder
		hosts += len(g.hosts)
		writeHeads(&head, g.hosts, o)
		out = append(out, PlanGroup{strings.Join(strings.Fields(head.String()), " "), g.body})
	}
	var b strings.Builder
	writeCounts(&b, r, hosts, o)
	return out, b.String()
}
