package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

func newDoctor(a *app) *cobra.Command {
	var list bool
	c := &cobra.Command{
		Use:   "doctor [PLAN]",
		Short: "Show what is wrong with the hosts of a plan",
		Long: `Looks at every host of a plan as the preflight of a join does, and shows all that it
finds, notes and waived findings too. Nothing is changed anywhere, and the cluster is
not asked.

The exit code is 0 when no error was found, 1 when one was, 4 when a host does not
answer. With --json the output is that of 'nodejoin plan --json'.`,
	}
	a.planFlags(c)
	a.runFlags(c)
	c.Flags().BoolVar(&list, "list", false, "list what can be found, and look at no host")
	c.RunE = func(c *cobra.Command, args []string) error {
		if list {
			if len(args) > 0 || a.json {
				return usageError{c, fmt.Errorf("--list takes no plan and no --json")}
			}
			a.listFindables()
			return nil
		}
		compiled, err := a.load(c.Context(), args)
		if err != nil {
			return err
		}
		if err := onlyPreflight(compiled); err != nil {
			return err
		}
		d := a.newDisplay()
		s := engine.New(compiled, a.options(compiled, d.Emit))
		defer s.Close()
		r := s.Check(c.Context())
		d.Close()
		if a.json {
			if err := a.printJSON(planJSON(compiled, r)); err != nil {
				return err
			}
		} else {
			a.showFindings(r)
		}
		if code := a.reportProblems(r, findingsShown); code != exitOK {
			return exitError(code)
		}
		return nil
	}
	return c
}

// onlyPreflight leaves of each node the steps that look, so that nothing else is asked.
func onlyPreflight(c *plan.Compiled) error {
	n := 0
	for i := range c.Nodes {
		c.Nodes[i].Steps = slices.DeleteFunc(slices.Clone(c.Nodes[i].Steps), func(s steps.Spec) bool { return s.Kind != "preflight" })
		for j := range c.Nodes[i].Steps {
			c.Nodes[i].Steps[j].After = nil
		}
		n += len(c.Nodes[i].Steps)
	}
	if n == 0 {
		return fmt.Errorf("no node of the plan has a preflight: it joins no cluster and has no step \"preflight\"")
	}
	return nil
}

func (a *app) listFindables() {
	w := tabwriter.NewWriter(a.term.Out, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSEVERITY\tWHY IT MATTERS")
	for _, f := range steps.Findables() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.ID, f.Severity, f.Doc)
	}
	w.Flush()
}

// showFindings prints what was found, host by host, errors first.
func (a *app) showFindings(r *engine.Report) {
	weight := map[steps.Severity]int{steps.SeverityError: 0, steps.SeverityWarning: 1, steps.SeverityNote: 2}
	styles := map[steps.Severity]ui.Style{steps.SeverityError: ui.Red, steps.SeverityWarning: ui.Yellow, steps.SeverityNote: ui.Dim}
	count := map[steps.Severity]int{}
	hosts, waived := 0, 0
	out := a.term.Out
	for _, h := range r.Hosts {
		if h.Err != nil {
			continue
		}
		hosts++
		var list []steps.Finding
		for _, s := range h.Steps {
			list = append(list, s.Result.Change.Findings...)
		}
		slices.SortStableFunc(list, func(x, y steps.Finding) int { return weight[x.Severity] - weight[y.Severity] })
		about := strings.TrimSpace(h.Facts.Product + " " + h.Facts.Build)
		fmt.Fprintf(out, "%s  %s\n", ui.Paint(a.term.OutColor, ui.Bold, ui.CleanLine(h.Node.Name)), ui.Paint(a.term.OutColor, ui.Dim, ui.CleanLine(about)))
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
