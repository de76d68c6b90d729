package main

import (
	"encoding/json"
	"time"

	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/runmetrics"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
)

// page is the page of --report for a command; the command fills it.
func (a *app) page(command string, args []string) report.HTML {
	return report.HTML{Command: "nodejoin " + command, Plan: a.planName(args), Version: version, At: time.Now()}
}

// writeMetrics writes the file of --metrics.
func (a *app) writeMetrics(command string, args []string, code int, r *engine.Report, sum *engine.Summary) error {
	return runmetrics.Write(a.metrics, runmetrics.Run{Command: command, Plan: namedPlan(args), Environment: a.environment,
		Version: version, Began: a.began, Code: code, Report: r, Summary: sum})
}

// titled is the title of a result, with its environment.
func (a *app) titled(title string) string {
	if a.environment != "" {
		title += " --env " + a.environment
	}
	return title
}

// written is the exit code of a command whose files are written, which is another where that failed.
func (a *app) written(code int, err error) int {
	if err == nil {
		return code
	}
	a.problems([]ui.Problem{{Level: "error", Summary: "a file with the result could not be written",
		Detail: err.Error()}}, nil)
	return max(code, exitOutput)
}

// showFindings writes findings in the form of --format; false for text.
func (a *app) showFindings(title, summary string, findings []report.Finding) (bool, error) {
	switch a.format {
	case "sarif":
		return true, report.SARIF(a.term.Out, version, findings)
	case "markdown":
		return true, report.Markdown(a.term.Out, report.FindingsPage(title, summary, findings))
	}
	return false, nil
}

// printJSON writes v to standard output, indented.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.term.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}
