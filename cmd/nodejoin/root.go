package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/buildinfo"
	"nodejoin/cmd/nodejoin/internal/complete"
	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/report"
	"nodejoin/cmd/nodejoin/internal/runlog"
	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/cmd/nodejoin/internal/usage"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// version is set by the release build.
var version = "0.1.0-dev"

// app is what every command shares.
type app struct {
	term *ui.Term

	vars         []string
	varFiles     []string
	targets      []string
	skips        []string
	shard        selection.Shard // --shard
	json         bool
	display      string
	format       string // --format
	junit        string // --junit
	reportFile   string // --report
	debug        bool
	logFile      string // --log-file
	log          *runlog.Log
	parallel     int
	untrusted    bool              // --untrusted
	unvalued     bool              // of validate: variables may be without a value
	downgrade    bool              // --allow-downgrade
	pruneChanged bool              // --prune-changed
	drain        kube.DrainOptions // of commands whose changes interrupt pods

	clusterAt string                           // place of the cluster block in the plan; load sets it
	digest    string                           // of the plan's files; load sets it
	members   []string                         // names of all nodes of the plan; load sets it
	env       func(name string) (string, bool) // the environment for plans; nil = that of this process
	resumed   *resumption                      // what this process finishes after a reboot; nil = nothing
	// resume is engine.Options.Resume; load sets it.
	resume func(plan.Node, host.Facts) (*engine.Resume, error)
	holder steps.LockHolder // of a command that changes hosts; hold sets it
	run    *history.Writer  // the record of this run; nil = none
	sent   []string         // the nodes that an agent was sent to
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "nodejoin",
		Short: "Join machines to a Kubernetes cluster, by a plan in git",
		Long: `nodejoin reads a join plan (*.join.hcl), compares it with the machines it names,
and makes them nodes of a Kubernetes cluster: locally or over SSH, step by step,
each step checked, applied and verified. Running it again changes only what differs.`,
		Example: `  nodejoin validate plans/prod        check the plan
  nodejoin plan plans/prod            show what would change
  nodejoin apply plans/prod           change it
  nodejoin status plans/prod          show whether the nodes still match the plan`,
		SilenceUsage: true, SilenceErrors: true,
		Version: version,
	}
	root.SetOut(a.term.Out)
	root.SetVersionTemplate(buildinfo.Of(version).String() + "\n")
	root.SuggestionsMinimumDistance = 2
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = " Did you mean " + near[0] + "?"
		}
		return usageError{c, fmt.Errorf("unknown command %q.%s", args[0], hint)}
	}
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	root.PersistentPreRunE = a.beginLog
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{c, usage.FlagError(c, err)}
	})
	root.AddCommand(newValidate(a), newPlan(a), newApply(a), newLeave(a), newPause(a), newUnpause(a),
		newStatus(a), newHistory(a), newLogs(a), newGraph(a), newVersion(a))
	root.AddCommand(newDoctor(a), newCheck(a), newVerify(a), newInit(a), newFmt(a), newRender(a), newOutput(a),
		newShards(a), newMan(), newResume())
	strictBuiltins(root)
	complete.Flags(root)
	a.wrapHelp(root)
	return root
}

// usageError is a wrong call. Its text ends with how to get help.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e usageError) Error() string {
	return e.err.Error() + "\nSee '" + e.cmd.CommandPath() + " --help'."
}

// noArgs is cobra.NoArgs as a usageError.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{c, fmt.Errorf("%s takes no arguments, but got %q", c.CommandPath(), args[0])}
	}
	return nil
}

// oneOf is a flag that has one of a few values.
type oneOf struct {
	value  *string
	values []string
}

func (o oneOf) String() string {
	if o.value == nil {
		return ""
	}
	return *o.value
}
func (o oneOf) Type() string      { return "string" }
func (o oneOf) Choices() []string { return o.values }
func (o oneOf) Set(s string) error {
	if !slices.Contains(o.values, s) {
		return fmt.Errorf("it must be %s", strings.Join(o.values[:len(o.values)-1], ", ")+" or "+o.values[len(o.values)-1])
	}
	*o.value = s
	return nil
}

// someOf is a flag with states of nodes, separated by commas.
type someOf []string

func (s *someOf) String() string { return strings.Join(*s, ",") }
func (s *someOf) Type() string   { return "strings" }

// Choices are what it takes.
func (s *someOf) Choices() []string { return ui.States }
func (s *someOf) Set(text string) error {
	for _, one := range strings.Split(text, ",") {
		if !slices.Contains(ui.States, one) {
			return fmt.Errorf("%q is no state; there are %s", one, strings.Join(ui.States, ", "))
		}
		*s = append(*s, one)
	}
	return nil
}

// positive is a flag with a whole number, at least 1.
type positive int

func (p *positive) String() string { return strconv.Itoa(int(*p)) }
func (p *positive) Type() string   { return "int" }
func (p *positive) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("it must be a whole number, at least 1")
	}
	*p = positive(n)
	return nil
}

// strictBuiltins makes wrong arguments of cobra's own commands usage errors. Cobra
// prints help for them and exits with 0.
func strictBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run = nil
			c.RunE = func(c *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return usageError{c.Root(), fmt.Errorf("there is no command %q", strings.Join(args, " "))}
				}
				of.InitDefaultHelpFlag()
				return of.Help()
			}
		case "completion":
			var shells []string
			for _, s := range c.Commands() {
				shells = append(shells, s.Name())
			}
			c.Args = func(c *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usageError{c, fmt.Errorf("there is no completion for %q, only for %s", args[0],
						strings.Join(shells, ", "))}
				}
				return nil
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			complete.Bash(c)
		}
	}
}

// planFlags are those of every command that reads a plan.
func (a *app) planFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&a.vars, "var", nil, "set a variable of the plan, `name=value`; may be repeated")
	_ = c.RegisterFlagCompletionFunc("var", a.completeVar)
	f.StringArrayVar(&a.varFiles, "var-file", nil, "read variables from `file` (HCL or JSON); may be repeated")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageError{c, errOnePlan}
		}
		return nil
	}
}

// untrustedFlag is for commands that reach no host and no cluster.
func (a *app) untrustedFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.untrusted, "untrusted", false,
		"the plan is somebody else's: it reads no environment and no file outside its folder")
}

// changeFlags are those of every command that shows or makes changes.
func (a *app) changeFlags(c *cobra.Command) {
	c.Flags().BoolVar(&a.downgrade, "allow-downgrade", false, "allow an older version of Kubernetes than nodes have")
	c.Flags().BoolVar(&a.pruneChanged, "prune-changed", false,
		"remove what the plan no longer has even if somebody changed it since")
	drainFlags(c, &a.drain)
}

// drainFlags limit what a drain may do to pods, with the names that kubectl drain has.
func drainFlags(c *cobra.Command, o *kube.DrainOptions) {
	f := c.Flags()
	f.BoolVar(&o.DeleteEmptyDirData, "delete-emptydir-data", false,
		"evict pods even if they have emptyDir volumes, which are lost")
	f.BoolVar(&o.Force, "force", false, "evict pods even if no controller creates them again")
	boundFlag(c, &o.Timeout, kube.DrainTimeout, "drain-timeout", "limit for the drain of one node")
}

// boundFlag is a flag with a bound in time.
func boundFlag(c *cobra.Command, value *time.Duration, fallback time.Duration, name, help string) {
	*value = fallback
	c.Flags().Var((*bound)(value), name, help)
}

// bound is a flag of more than 0 and at most a day.
type bound time.Duration

func (d *bound) String() string { return time.Duration(*d).String() }
func (d *bound) Type() string   { return "duration" }
func (d *bound) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v <= 0 || v > 24*time.Hour {
		return errors.New("it must be a duration from more than 0 to 24h")
	}
	*d = bound(v)
	return nil
}

// formatFlag chooses between text and other forms of a result.
func (a *app) formatFlag(c *cobra.Command, others ...string) {
	a.format = "text"
	values := append([]string{"text"}, others...)
	c.Flags().Var(oneOf{&a.format, values}, "format", "form of the result: "+strings.Join(values, ", "))
}

// junitFlag writes the result as tests for a CI system, besides what the command prints.
func (a *app) junitFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.junit, "junit", "", "also write the result as JUnit XML into `file`")
}

// reportFlag writes the result as a page for people, besides what the command prints.
func (a *app) reportFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.reportFile, "report", "", "also write the result as one HTML page into `file`")
}

// page is the page of --report for a command; the command fills it.
func (a *app) page(command string, args []string) report.HTML {
	return report.HTML{Command: "nodejoin " + command, Plan: planName(args), Version: version, At: time.Now()}
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

// runFlags are those of every command that connects to hosts.
func (a *app) runFlags(c *cobra.Command) {
	a.targetFlags(c)
	a.outputFlags(c)
	a.parallel = 10
	c.Flags().Var((*positive)(&a.parallel), "parallel", "how many hosts to work on at once")
}

// outputFlags are those of every command that shows progress.
func (a *app) outputFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&a.json, "json", false, "print JSON on standard output")
	f.BoolVar(&a.debug, "debug", false, "log what happens on standard error")
	f.StringVar(&a.logFile, "log-file", "", "append what happens to `file`, as JSON lines without secrets")
	a.display = "auto"
	f.Var(oneOf{&a.display, []string{"auto", "plain", "quiet"}}, "display",
		"progress on standard error: auto, plain or quiet")
}
