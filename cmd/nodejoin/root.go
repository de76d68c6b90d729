package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/ui"
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

	vars      []string
	varFiles  []string
	targets   []string
	skips     []string
	json      bool
	display   string
	parallel  int
	downgrade bool              // --allow-downgrade
	drain     kube.DrainOptions // of commands whose changes interrupt pods

	clusterAt string                           // where the plan names its cluster; load sets it
	digest    string                           // of the plan's files; load sets it
	members   []string                         // names of all nodes of the plan; load sets it
	env       func(name string) (string, bool) // that plans are read with; nil = this process's
	resumed   *resumption                      // what this process finishes after a boot; nil = it does no such thing
	// resume is engine.Options.Resume; load sets it.
	resume func(plan.Node, host.Facts) (*engine.Resume, error)
	holder steps.Holder // of a command that changes hosts; hold sets it
	run    *history.Writer
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "nodejoin",
		Short: "Join machines to a Kubernetes cluster as a plan in git says",
		Long: `nodejoin reads a join plan (*.join.hcl), compares it with the machines it names,
and makes them nodes of a Kubernetes cluster: locally or over SSH, step by step,
each step checked, applied and verified. Running it again changes only what differs.`,
		Example: `  nodejoin validate plans/prod        is the plan right?
  nodejoin plan plans/prod            what would change?
  nodejoin apply plans/prod           change it
  nodejoin status plans/prod          are the nodes still as the plan says?`,
		SilenceUsage: true, SilenceErrors: true,
		Version: version,
	}
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
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{c, err}
	})
	root.AddCommand(newValidate(a), newPlan(a), newApply(a), newLeave(a), newStatus(a), newHistory(a), newLogs(a), newGraph(a), newVersion(a))
	root.AddCommand(newDoctor(a), newCheck(a), newVerify(a), newInit(a), newFmt(a), newRender(a), newResume(a))
	strictBuiltins(root)
	a.wrapHelp(root)
	return root
}

// usageError is a wrong call; it ends with how to get help.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e usageError) Error() string {
	return e.err.Error() + "\nSee '" + e.cmd.CommandPath() + " --help'."
}

// noArgs is cobra.NoArgs that ends with how to get help.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{c, fmt.Errorf("%s takes no argument, and there is %q", c.CommandPath(), args[0])}
	}
	return nil
}

// oneOf is a flag with few values; another is a usage error.
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
func (o oneOf) Type() string { return "string" }
func (o oneOf) Set(s string) error {
	if !slices.Contains(o.values, s) {
		return fmt.Errorf("it must be %s", strings.Join(o.values[:len(o.values)-1], ", ")+" or "+o.values[len(o.values)-1])
	}
	*o.value = s
	return nil
}

// positive is a flag with a whole number from 1 on.
type positive int

func (p *positive) String() string { return strconv.Itoa(int(*p)) }
func (p *positive) Type() string   { return "int" }
func (p *positive) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("it must be a whole number from 1 on")
	}
	*p = positive(n)
	return nil
}

// strictBuiltins makes wrong arguments of cobra's own commands usage errors; it
// takes them for a wish for help, and ends with 0.
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
					return usageError{c.Root(), fmt.Errorf("there is no command %q to help with", strings.Join(args, " "))}
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
					return usageError{c, fmt.Errorf("there is no completion for %q; there is for %s", args[0], strings.Join(shells, ", "))}
				}
				return nil
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// planFlags are those of every command that reads a plan.
func (a *app) planFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&a.vars, "var", nil, "set a variable of the plan, `name=value`; may be repeated")
	f.StringArrayVar(&a.varFiles, "var-file", nil, "read variables from `file` (HCL or JSON); may be repeated")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageError{c, errOnePlan}
		}
		return nil
	}
}

// changeFlags are those of the commands that look at or make changes of hosts.
func (a *app) changeFlags(c *cobra.Command) {
	c.Flags().BoolVar(&a.downgrade, "allow-downgrade", false, "let nodes go back to an older version of Kubernetes")
	drainFlags(c, &a.drain)
}

// drainFlags say what may be done to the pods of a Node, as kubectl drain names it.
func drainFlags(c *cobra.Command, o *kube.DrainOptions) {
	f := c.Flags()
	f.BoolVar(&o.DeleteEmptyDirData, "delete-emptydir-data", false, "evict pods whose emptyDir volumes are lost with them")
	f.BoolVar(&o.Force, "force", false, "evict pods that no controller makes anew")
	o.Timeout = kube.DrainTimeout
	f.Var((*drainTime)(&o.Timeout), "drain-timeout", "bound of the drain of one node")
}

// drainTime is a flag with the bound of a drain.
type drainTime time.Duration

func (d *drainTime) String() string { return time.Duration(*d).String() }
func (d *drainTime) Type() string   { return "duration" }
func (d *drainTime) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil || v <= 0 || v > 24*time.Hour {
		return errors.New("it must be a duration of more than 0 and at most 24h")
	}
	*d = drainTime(v)
	return nil
}

// runFlags are those of every command that asks hosts.
func (a *app) runFlags(c *cobra.Command) {
	f := c.Flags()
	a.targetFlags(c)
	f.BoolVar(&a.json, "json", false, "print JSON on standard output")
	a.display = "auto"
	f.Var(oneOf{&a.display, []string{"auto", "plain", "quiet"}}, "display", "progress on standard error: auto, plain or quiet")
	a.parallel = 10
	f.Var((*positive)(&a.parallel), "parallel", "hosts worked on at once")
}
