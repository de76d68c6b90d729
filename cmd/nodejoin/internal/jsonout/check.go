package jsonout

import "nodejoin/plan/check"

// Check is the JSON output of check (examples/schema/check.schema.json).
type Check struct {
	FormatVersion string          `json:"format_version"`
	Objects       int             `json:"objects"`
	Pods          int             `json:"pods"`
	Windows       int             `json:"windows"`
	Errors        int             `json:"error_count"`
	Warnings      int             `json:"warning_count"`
	Findings      []check.Finding `json:"findings"`
}

// OfCheck is the result of check.
func OfCheck(r check.Report) Check {
	out := Check{FormatVersion: "1", Objects: r.Objects, Pods: r.Pods, Windows: r.Windows,
		Findings: append([]check.Finding{}, r.Findings...)}
	for _, f := range r.Findings {
		if f.Severity == check.Error {
			out.Errors++
		} else {
			out.Warnings++
		}
	}
	return out
}
