package report

import (
	"fmt"
	"strconv"
	"strings"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/verify"
)

// OfCompare fills a page with what a plan or a status found: the nodes of only, findings, and what would change.
func (p HTML) OfCompare(r *engine.Report, only []string, full bool) HTML {
	shown := ui.OnlyStates(r, only)
	plan := PlanPage(shown, full)
	p.Findings = OfReport(shown)
	p.Sections = plan.Sections[len(p.Findings):]
	p.Tables = append(p.Tables, TableOf("Nodes", ui.StatusRows(r, only)))
	p.Result, p.Bad = plan.Summary, len(p.Findings) > 0
	if status, err := StatusPage(r, only); err == nil && !p.ChangesFirst {
		p.Result = status.Summary
	}
	return p
}

// OfApply fills a page with what an apply did: the hosts with their results, what had been found, and the failures.
func (p HTML) OfApply(r *engine.Report, hosts []ui.HostResult, failures []ui.Problem, full bool) HTML {
	plan := PlanPage(r, full)
	p.Findings = append(OfReport(r), OfProblems(failures)...)
	p.Sections = plan.Sections[len(OfReport(r)):]
	if len(hosts) > 0 {
		p.Tables = append(p.Tables, TableOf("Hosts", ui.HostRows(hosts, false)))
	} else {
		p.Tables = append(p.Tables, TableOf("Nodes", ui.StatusRows(r, nil)))
	}
	if p.Result == "" {
		p.Result = plan.Summary
	}
	return p
}

// OfDoctor fills a page with what the doctor found.
func (p HTML) OfDoctor(list []engine.Diagnosis) HTML {
	all := OfDiagnoses(list)
	count := map[string]int{}
	for _, f := range all {
		count[f.Level]++
	}
	p.Findings = together(all)
	p.Bad = count["error"] > 0
	p.Result = fmt.Sprintf("%d hosts: %d errors, %d warnings, %d notes.", len(list), count["error"], count["warning"],
		count["note"])
	return p
}

// together are findings of which those that say the same of several nodes are one.
func together(list []Finding) (out []Finding) {
	by := map[Finding]int{}
	var subjects [][]string
	for _, f := range list {
		key := f
		key.Subject, key.File, key.Line, key.Column = "", "", 0, 0
		at, had := by[key]
		if !had {
			at = len(out)
			by[key] = at
			out, subjects = append(out, f), append(subjects, nil)
		}
		subjects[at] = append(subjects[at], f.Subject)
	}
	for i, names := range subjects {
		out[i].Subject = ui.FewNames(names, 8)
	}
	return out
}

// OfVerify fills a page with the tests of verify: the proof that nodes run pods.
func (p HTML) OfVerify(r *verify.Report, err error) HTML {
	count := map[verify.Status]int{}
	rows := [][]string{{"NODE", "TEST", "RESULT", "TOOK", "SEEN"}}
	words := map[verify.Status]string{verify.Pass: "pass", verify.Fail: "FAIL", verify.NotPossible: "not possible here"}
	for _, f := range r.Results {
		count[f.Status]++
		rows = append(rows, []string{f.Node, f.Flow, words[f.Status], seconds(f.Took), f.Detail})
	}
	p.Tables = append(p.Tables, TableOf("Tests", rows))
	p.Result = fmt.Sprintf("%d passed, %d failed, %d not possible here.", count[verify.Pass], count[verify.Fail],
		count[verify.NotPossible])
	p.Bad = count[verify.Fail] > 0 || err != nil || r.Remains != ""
	if r.Remains != "" {
		p.Summary = "Not everything could be deleted again: " + r.Remains
	}
	if err != nil {
		p.Findings = OfProblems([]ui.Problem{{Level: "error", Summary: "the cluster could not be asked",
			Detail: err.Error()}})
	}
	return p
}

// OfRun fills a page with a run of the history. result is its result in words.
func (p HTML) OfRun(r history.Run, result string) HTML {
	h := r.Head
	p.Plan, p.Version, p.At, p.Result = h.Plan, h.Version, h.Holder.Since, result
	p.Bad = r.End == nil || r.End.ExitCode != 0
	about := [][]string{{"WHAT", "VALUE"}, {"run", h.Holder.Run}, {"command", h.Holder.Command},
		{"by", h.Holder.User + " on " + h.Holder.Host}, {"digest of the plan", h.Digest}}
	if with := h.With(); with != "" {
		about = append(about, []string{"variables", with})
	}
	p.Tables = append(p.Tables, TableOf("Run", about))
	p.Times = &Recorder{}
	for _, entry := range r.Events {
		if e, err := event.Decode(entry.Event); err == nil {
			p.Times.At(e, entry.At)
		}
	}
	if r.End == nil {
		return p
	}
	rows := [][]string{{"HOST", "CHANGED", "UNCHANGED", "LEFT", "RESULT"}}
	for _, host := range r.End.Hosts {
		of := "done"
		if host.Error != "" || host.Failed != "" {
			of = strings.TrimSpace("failed " + host.Failed + ": " + host.Error)
		}
		rows = append(rows, []string{host.Node, strconv.Itoa(len(host.Changed)), strconv.Itoa(host.Unchanged),
			strconv.Itoa(host.Left), of})
	}
	p.Tables = append(p.Tables, TableOf("Hosts", rows))
	return p
}
