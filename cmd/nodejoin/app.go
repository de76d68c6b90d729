package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/planbundle"
	"nodejoin/cmd/nodejoin/internal/resume"
	"nodejoin/cmd/nodejoin/internal/runlog"
	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/plan/block"
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
	environment  string // --env
	targets      []string
	skips        []string
	shard        selection.Shard // --shard
	json         bool
	display      string
	format       string // --format
	junit        string // --junit
	reportFile   string // --report
	metrics      string // --metrics
	began        time.Time
	debug        bool
	logFile      string // --log-file
	log          *runlog.Log
	parallel     parallelFlag
	untrusted    bool              // --untrusted
	offline      bool              // --offline
	unvalued     bool              // of validate: variables may be without a value
	downgrade    bool              // --allow-downgrade
	pruneChanged bool              // --prune-changed
	drain        kube.DrainOptions // of commands whose changes interrupt pods

	note   map[string]bool    // files of the plan, as it is read; nil = nobody wants to know
	bundle *planbundle.Opened // that the plan is in; nil = none
	agent  connect.Agents     // nil = those of this nodejoin

	noAgent error // why this machine has no place for agents; compile sets it

	clusterAt  string                           // place of the cluster block in the plan; load sets it
	digest     string                           // of the plan's files; load sets it
	data       []block.Data                     // what the plan has read; load sets it
	unverified []string                         // artifacts for whose locked digests nobody vouches; load sets it
	members    []string                         // names of all nodes of the plan; load sets it
	env        func(name string) (string, bool) // the environment for plans; nil = that of this process
	resumed    *resume.File                     // what this process finishes after a reboot; nil = nothing
	alone      firstboot.Alone                  // the run of a machine that this apply belongs to; nil = none
	fails      func(text string)                // gets what a command ends with, in a line; nil = nobody does
	// followLogin is plan.Options.FollowLogin.
	followLogin *steps.Login
	// resume is engine.Options.Resume; load sets it.
	resume func(plan.Node, host.Facts) (*engine.Resume, error)
	holder steps.LockHolder // of a command that changes hosts, which sets it
	run    *history.Writer  // the record of this run; nil = none
	notes  string           // the folder of such records; "" = history.Root
	sent   []string         // the nodes that an agent was sent to
}

// runner runs one command and returns its exit code.
type runner func(ctx context.Context, a *app, args []string) int

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
