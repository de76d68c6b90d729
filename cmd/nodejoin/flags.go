package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/flagvalue"
	"nodejoin/steps/kube"
)

// planFlags are those of every command that reads a plan.
func (a *app) planFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&a.vars, "var", nil, "set a variable of the plan, `name=value`; may be repeated")
	_ = c.RegisterFlagCompletionFunc("var", a.completeVar)
	f.StringArrayVar(&a.varFiles, "var-file", nil, "read variables from `file` (HCL or JSON); may be repeated")
	a.environmentFlag(c)
	f.BoolVar(&a.offline, "offline", false, "reach nothing but the hosts and the API server; a bundle implies it")
}

// environmentFlag is for commands that read a plan, without values on the command line.
func (a *app) environmentFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.environment, "env", "",
		"the plan's environment `name`: reads env/NAME.joinvars beside the plan, and keeps to the nodes of this environment")
	_ = c.RegisterFlagCompletionFunc("env", completeEnvironment)
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
	c.Flags().Var((*flagvalue.Bound)(value), name, help)
}

// formatFlag chooses between text and other forms of a result.
func (a *app) formatFlag(c *cobra.Command, others ...string) {
	a.format = "text"
	values := append([]string{"text"}, others...)
	c.Flags().Var(flagvalue.OneOf{Value: &a.format, Values: values}, "format",
		"form of the result: "+strings.Join(values, ", "))
}

// junitFlag writes the result as tests for a CI system, besides what the command prints.
func (a *app) junitFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.junit, "junit", "", "also write the result as JUnit XML into `file`")
}

// reportFlag writes the result as a page for people, besides what the command prints.
func (a *app) reportFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.reportFile, "report", "", "also write the result as one HTML page into `file`")
}

// metricsFlag writes numbers of the run for Prometheus.
func (a *app) metricsFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.metrics, "metrics", "",
		"also write metrics for Prometheus into `file`, for the textfile collector of node_exporter")
}

// runFlags are those of every command that connects to hosts.
func (a *app) runFlags(c *cobra.Command) {
	a.targetFlags(c)
	a.outputFlags(c)
	c.Flags().Var(&a.parallel, "parallel", "how many hosts to work on at once; auto begins with 10 and "+
		"takes more while processors are idle, as open files and memory allow")
}

// outputFlags are those of every command that shows progress.
func (a *app) outputFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&a.json, "json", false, "print JSON on standard output")
	f.BoolVar(&a.debug, "debug", false, "log what happens on standard error")
	f.StringVar(&a.logFile, "log-file", "", "append what happens to `file`, as JSON lines without secrets")
	a.display = "auto"
	f.Var(flagvalue.OneOf{Value: &a.display, Values: []string{"auto", "plain", "quiet"}}, "display",
		"progress on standard error: auto, plain or quiet")
}
