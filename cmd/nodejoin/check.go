package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/check"
)

// maxManifest bounds a file that is checked (bytes).
const maxManifest = 16 << 20

// jsonCheck is the JSON output of check (examples/schema/check.schema.json).
type jsonCheck struct {
	FormatVersion string          `json:"format_version"`
	Objects       int             `json:"objects"`
	Pods          int             `json:"pods"`
	Windows       int             `json:"windows"`
	Errors        int             `json:"error_count"`
	Warnings      int             `json:"warning_count"`
	Findings      []check.Finding `json:"findings"`
}

func newCheck(a *app) *cobra.Command {
	var list bool
	path := "."
	c := &cobra.Command{
		Use:   "check [--plan PLAN] FILE...",
		Short: "Check manifests of pods against the Windows nodes of a plan",
		Long: `Reads manifests (YAML or JSON; - is standard input) and says what in them would not
run on the Windows nodes of the plan: fields that Windows does not have, selectors,
tolerations and RuntimeClasses with which a pod would wait for ever, images of another
Windows build than the node's. Of pods for Linux only images of Windows are named. No
host and no cluster is asked: labels and RuntimeClasses that the plan does not give are
not known here.

The exit code is 0 when no error was found, 1 when one was, 3 when the plan or a file
cannot be read.`,
		Example: `  nodejoin check --plan plans/prod deploy/*.yaml
  kustomize build overlays/prod | nodejoin check --plan plans/prod -`,
	}
	a.planFlags(c)
	c.Args = nil
	c.Flags().StringVar(&path, "plan", ".", "the `plan`: a folder with *.join.hcl files, or one such file")
	c.Flags().BoolVar(&a.json, "json", false, "print the findings as JSON on standard output")
	c.Flags().BoolVar(&list, "list", false, "list what can be found, and read nothing")
	c.RunE = func(c *cobra.Command, args []string) error {
		if list {
			if len(args) > 0 || a.json {
				return usageError{c, errors.New("--list takes no file and no --json")}
			}
			return a.listChecks()
		}
		if len(args) == 0 {
			return usageError{c, errors.New("name the files to check, or - for standard input")}
		}
		if err := noPlans(args); err != nil {
			return usageError{c, err}
		}
		compiled, err := a.load(c.Context(), []string{path})
		if err != nil {
			return err
		}
		cluster := check.Of(compiled)
		if len(cluster.Nodes) == 0 {
			return errors.New("the plan has no Windows node, so there is nothing to hold the files against")
		}
		files, err := readManifests(args, c.InOrStdin())
		if err != nil {
			return err
		}
		r, err := check.Run(files, cluster)
		if err != nil {
			return err
		}
		return a.showCheck(r)
	}
	return c
}

// noPlans refuses a plan where files of manifests are named: what is wrong with it is
// another command's to say.
func noPlans(names []string) error {
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(name, "*"+plan.Suffix))
		if strings.HasSuffix(name, plan.Suffix) || err == nil && len(found) > 0 {
			return fmt.Errorf("%s is a join plan, and check reads manifests of pods. A plan is checked by\n  nodejoin validate %s\nand manifests are held against it by\n  nodejoin check --plan %s FILE...", name, name, name)
		}
	}
	return nil
}

// readManifests reads the files. Two times standard input, and an empty one, are
// mistakes: a program before it in a pipe has failed.
func readManifests(names []string, stdin io.Reader) ([]check.File, error) {
	var out []check.File
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		seen[name] = true
		shown, in := name, stdin
		if name == "-" {
			shown = "standard input"
		} else {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }() // it is only read
			if fi, err := f.Stat(); err != nil {
				return nil, err
			} else if fi.IsDir() {
				return nil, fmt.Errorf("%s is a folder; name its files", name)
			}
			in = f
		}
		b, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", shown, err)
		case len(b) > maxManifest:
			return nil, fmt.Errorf("%s has more than %d bytes", shown, maxManifest)
		case strings.TrimSpace(string(b)) == "":
			return nil, fmt.Errorf("%s is empty", shown)
		}
		out = append(out, check.File{Name: shown, Data: b})
	}
	return out, nil
}

func (a *app) listChecks() error {
	rows := [][]string{{"ID", "SEVERITY", "WHY IT MATTERS"}}
	for _, r := range check.Rows() {
		rows = append(rows, []string{r.ID, string(r.Severity), r.Why})
	}
	return ui.Table(a.term.Out, a.term.OutLimit(), rows)
}

func (a *app) showCheck(r check.Report) error {
	out := jsonCheck{FormatVersion: "1", Objects: r.Objects, Pods: r.Pods, Windows: r.Windows, Findings: append([]check.Finding{}, r.Findings...)}
	for _, f := range r.Findings {
		if f.Severity == check.Error {
			out.Errors++
		} else {
			out.Warnings++
		}
	}
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		a.writeCheck(out)
	}
	if out.Errors > 0 {
		return exitError(exitFailed)
	}
	return nil
}

func (a *app) writeCheck(r jsonCheck) {
	w, width := a.term.Out, a.term.Width()
	styles := map[check.Severity]ui.Style{check.Error: ui.Red, check.Warning: ui.Yellow}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s:%d,%d %s %s\n", ui.CleanLine(f.File), f.Line, f.Column, ui.Paint(a.term.OutColor, styles[f.Severity], string(f.Severity)+":"), f.ID)
		for _, text := range []string{f.Object + ", " + f.Field + ": " + f.Seen, "why: " + f.Why, "what to do: " + f.Remedy} {
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(ui.Wrap(ui.CleanLine(text), "", max(width-4, 24)), "\n", "\n      "))
		}
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w)
	}
	line := fmt.Sprintf("Checked %d %s, %d with pods, %d of them for Windows: %d %s, %d %s.", r.Objects, plural(r.Objects, "object"), r.Pods, r.Windows,
		r.Errors, plural(r.Errors, "error"), r.Warnings, plural(r.Warnings, "warning"))
	fmt.Fprintln(w, ui.Wrap(line, "", width))
}
