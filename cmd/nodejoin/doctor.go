package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

func newDoctor(a *app) *cobra.Command {
	var list bool
	var fix fixOptions
	c := &cobra.Command{
		Use:   "doctor [PLAN]",
		Short: "Show what is wrong with the hosts of a plan, and mend what can be",
		Long: `Looks at every host of a plan as the preflight of a join does, and at a host that has
joined also for the symptoms that guides to Windows nodes name: services, pod network,
addresses left by an earlier join, pause image, DNS, proxy. Shows all that it finds, notes
and waived findings too, and what could not be looked at. Nothing is changed anywhere.

With --fix it then shows which steps of the plan would mend what it found, asks, applies
just those, and looks again. What nodejoin did not make stays as it is.

The exit code is 0 when no error was found, 1 when one was, 4 when a host does not
answer; with --fix that of the second look.`,
		Example: `  nodejoin doctor plans/prod
  nodejoin doctor plans/prod --fix --target win-1`,
	}
	a.planFlags(c)
	a.runFlags(c)
	f := c.Flags()
	f.BoolVar(&list, "list", false, "list what can be found, and look at no host")
	f.BoolVar(&fix.on, "fix", false, "mend what steps of the plan can mend, after asking")
	f.BoolVar(&fix.auto, "auto-approve", false, "with --fix: do not ask")
	drainFlags(c, &a.drain)
	c.RunE = func(c *cobra.Command, args []string) error {
		if list {
			if len(args) > 0 || a.json {
				return usageError{c, fmt.Errorf("--list takes no plan and no --json")}
			}
			return a.listFindables()
		}
		if fix.auto && !fix.on {
			return usageError{c, fmt.Errorf("--auto-approve is for --fix")}
		}
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(compiled.Nodes, func(n plan.Node) bool {
			return slices.ContainsFunc(n.Steps, func(s steps.Spec) bool { return s.Kind == "preflight" })
		}) {
			return fmt.Errorf("no node of the plan has a preflight: it joins no cluster and has no step \"preflight\"")
		}
		return a.doctor(c, args, compiled, fix)
	}
	return c
}

func (a *app) doctor(c *cobra.Command, args []string, compiled *plan.Compiled, fix fixOptions) error {
	ctx := c.Context()
	found := a.diagnose(ctx, compiled)
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	code := diagnosisCode(found)
	var mended *engine.Summary
	if fix.on {
		if !a.json {
			a.showDiagnoses(found)
		}
		var err error
		var fixed int
		if mended, fixed, err = a.fix(ctx, args, compiled, found, fix); err != nil {
			return err
		}
		if mended != nil {
			if !a.json {
				fmt.Fprintf(a.term.Out, "\nLooked at again:\n\n")
			}
			found = a.diagnose(ctx, compiled)
			code = worst(fixed, diagnosisCode(found))
		}
	}
	switch {
	case a.json:
		if err := a.printJSON(doctorJSON(found, mended)); err != nil {
			return err
		}
	case !fix.on || mended != nil:
		a.showDiagnoses(found)
	}
	if !fix.on && !a.json {
		a.sayFix(compiled, found)
	}
	var ps []ui.Problem
	for _, d := range found {
		if d.Err != nil {
			p := problemOf(d.Err)
			p.Host, p.Source = d.Node.Name, d.Node.Connection.Source
			ps = append(ps, p)
		}
	}
	a.problems(ui.Fold(ps), nil)
	if code != exitOK {
		return exitError(code)
	}
	return nil
}

// diagnosisCode is the exit code of what was found.
func diagnosisCode(found []engine.Diagnosis) int {
	var codes []int
	for _, d := range found {
		codes = append(codes, errorCode(d.Err))
		for _, f := range d.Found {
			if f.Severity == steps.SeverityError && !f.Waived {
				codes = append(codes, exitFailed)
			}
		}
	}
	return worst(codes...)
}

func (a *app) listFindables() error {
	rows := [][]string{{"ID", "SEVERITY", "WHY IT MATTERS"}}
	for _, f := range slices.Concat(steps.Findables(), steps.Symptoms()) {
		rows = append(rows, []string{f.ID, string(f.Severity), f.Doc})
	}
	return ui.Table(a.term.Out, a.term.OutLimit(), rows)
}

// showDiagnoses prints what was found, host by host, errors first.
func (a *app) showDiagnoses(found []engine.Diagnosis) {
	weight := map[steps.Severity]int{steps.SeverityError: 0, steps.SeverityWarning: 1, steps.SeverityNote: 2}
	styles := map[steps.Severity]ui.Style{steps.SeverityError: ui.Red, steps.SeverityWarning: ui.Yellow, steps.SeverityNote: ui.Dim}
	count := map[steps.Severity]int{}
	hosts, waived := 0, 0
	out := a.term.Out
	for _, d := range found {
		if d.Err != nil {
			continue
		}
		hosts++
		list := slices.Clone(d.Found)
		slices.SortStableFunc(list, func(x, y steps.Symptom) int { return weight[x.Severity] - weight[y.Severity] })
		about := strings.TrimSpace(d.Facts.Product + " " + d.Facts.Build)
		if !d.Joined {
			about += "; not joined"
		}
		fmt.Fprintf(out, "%s  %s\n", ui.Paint(a.term.OutColor, ui.Bold, ui.CleanLine(d.Node.Name)), ui.Paint(a.term.OutColor, ui.Dim, ui.CleanLine(about)))
		for _, f := range list {
			word := string(f.Severity)
			if f.Waived {
				word += ", waived"
				waived++
			} else {
				count[f.Severity]++
			}
			fmt.Fprintf(out, "  %s %s\n", ui.Paint(a.term.OutColor, styles[f.Severity], word+":"), f.ID)
			for _, text := range []string{f.Seen, "why: " + f.Why, "what to do: " + f.Remedy} {
				fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(ui.Wrap(ui.CleanLine(text), "", max(a.term.Width()-6, 24)), "\n", "\n        "))
			}
		}
		if len(list) == 0 {
			fmt.Fprintln(out, "  nothing was found")
		}
		fmt.Fprintln(out)
	}
	line := fmt.Sprintf("Found on %d %s: %d %s, %d %s, %d %s", hosts, plural(hosts, "host"), count[steps.SeverityError], plural(count[steps.SeverityError], "error"),
		count[steps.SeverityWarning], plural(count[steps.SeverityWarning], "warning"), count[steps.SeverityNote], plural(count[steps.SeverityNote], "note"))
	if waived > 0 {
		line += fmt.Sprintf("; %d waived", waived)
	}
	fmt.Fprintln(out, ui.Wrap(line+".", "", a.term.Width()))
}

// jsonDoctor is the JSON output of doctor (examples/schema/doctor.schema.json).
type jsonDoctor struct {
	FormatVersion string           `json:"format_version"`
	Errors        int              `json:"errors"` // that are not waived
	Hosts         []jsonDoctorHost `json:"hosts"`
}

type jsonDoctorHost struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Facts   any    `json:"facts,omitempty"`
	// Joined tells that symptoms of a joined machine were looked for.
	Joined    bool          `json:"joined"`
	Findings  []jsonSymptom `json:"findings"`
	Mended    []string      `json:"mended,omitempty"` // addresses of steps that --fix has changed
	Error     *ui.Problem   `json:"error,omitempty"`
	Mutations int64         `json:"mutations"` // of looking: 0
}

type jsonSymptom struct {
	ID       string         `json:"id"`
	Severity steps.Severity `json:"severity"`
	Seen     string         `json:"seen"`
	Why      string         `json:"why,omitempty"`
	Remedy   string         `json:"remedy,omitempty"`
	Unasked  bool           `json:"unasked,omitempty"`
	Waived   bool           `json:"waived,omitempty"`
	Fixable  bool           `json:"fixable,omitempty"` // --fix can mend it
}

func doctorJSON(found []engine.Diagnosis, mended *engine.Summary) jsonDoctor {
	out := jsonDoctor{FormatVersion: "1", Hosts: []jsonDoctorHost{}}
	for _, d := range found {
		j := jsonDoctorHost{Node: d.Node.Name, Address: d.Node.Address, Joined: d.Joined, Findings: []jsonSymptom{}, Mutations: d.Mutations}
		if d.Err != nil {
			p := problemOf(d.Err)
			j.Error = &p
		} else {
			j.Facts = d.Facts
		}
		for _, f := range d.Found {
			if f.Severity == steps.SeverityError && !f.Waived {
				out.Errors++
			}
			j.Findings = append(j.Findings, jsonSymptom{f.ID, f.Severity, f.Seen, f.Why, f.Remedy, f.Unasked, f.Waived, fixable(f)})
		}
		if mended != nil {
			for _, h := range mended.Hosts {
				if h.Node != d.Node.Name {
					continue
				}
				for _, id := range h.Changed {
					j.Mended = append(j.Mended, d.Node.Address+"."+id)
				}
			}
		}
		out.Hosts = append(out.Hosts, j)
	}
	return out
}
