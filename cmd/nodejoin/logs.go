package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/bundle"
	"nodejoin/cmd/nodejoin/internal/jsonout"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
)

// logsCommand is one run of logs.
type logsCommand struct {
	*app
	out string // --output

	args     []string
	compiled *plan.Compiled
	at       time.Time
}

func newLogs(a *app) *cobra.Command {
	x := &logsCommand{app: a}
	c := &cobra.Command{
		Use:   "logs [PLAN]",
		Short: "Write one file with everything that a bug report needs",
		Long: fmt.Sprintf(`Asks every host and the cluster, changes nothing, and writes a zip file: versions, the
plan, a new check of every step, service states, configurations, the ends of logs, HNS
networks and endpoints, addresses, routes and ports, images, entries of the Windows event
log, the Node with its events, the last runs. What cannot be collected is listed with the
reason; the rest is there all the same.

Secrets are removed on the host, before anything is sent: what the plan marks as sensitive,
and what looks like a key, a token or a password. Read through the file before you pass it
on: no program knows every secret. It has at most %d MiB.`, bundle.MaxSize>>20),
		Example: `  nodejoin logs plans/prod --target win-1 -o win-1.zip`,
		RunE:    x.run,
	}
	a.planFlags(c)
	a.runFlags(c)
	c.Flags().StringVarP(&x.out, "output", "o", "", "the `file` to write; default nodejoin-logs-TIME.zip in this folder")
	return c
}

func (x *logsCommand) run(c *cobra.Command, args []string) error {
	if err := x.load(c.Context(), args); err != nil {
		return err
	}
	b, hosts, err := x.collect(c.Context())
	if err != nil {
		return err
	}
	zip, err := b.Zip()
	if err == nil {
		err = atomicfile.Write(x.out, zip, 0o600)
	}
	if err != nil {
		return fmt.Errorf("--output %s: %w", x.out, err)
	}
	return x.report(b, hosts)
}

func (x *logsCommand) load(ctx context.Context, args []string) (err error) {
	x.args, x.at = args, time.Now().UTC()
	if x.compiled, err = x.app.load(ctx, args); err != nil {
		return err
	}
	if x.out == "" {
		x.out = "nodejoin-logs-" + x.at.Format("20060102-150405") + ".zip"
	}
	if _, err := os.Lstat(x.out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--output %s: the file already exists and is not overwritten; name another file", x.out)
	}
	return nil
}

// collect asks all hosts and fills a bundle. It also returns the number of hosts.
func (x *logsCommand) collect(ctx context.Context) (*bugReport, int, error) {
	d := x.newDisplay(ui.OnHosts("Collecting", x.compiled))
	s := engine.New(x.compiled, x.options(x.compiled, d.Emit))
	defer s.Close()
	report := s.Check(ctx)
	collected := s.Collect(ctx)
	d.Close()
	if ctx.Err() != nil {
		return nil, 0, exitError(exitInterrupted)
	}
	b, err := x.newBugReport(ctx, x.args, x.compiled, x.at)
	if err != nil {
		return nil, 0, err
	}
	if report.Cluster != nil {
		b.Missing("cluster", report.Cluster.Error())
	}
	for _, g := range collected {
		b.host(x.compiled, g)
	}
	return b, len(collected), nil
}

func (x *logsCommand) report(b *bugReport, hosts int) error {
	if x.json {
		return x.printJSON(jsonout.Logs{File: x.out, Entries: b.Entries(),
			Missing: append([]string{}, b.Lacks()...)})
	}
	out := x.term.Out
	fmt.Fprintf(out, "%s: %d entries of %d %s", ui.CleanLine(x.out), b.Entries(), hosts, plural(hosts, "host"))
	if len(b.Lacks()) > 0 {
		fmt.Fprintf(out, ", %d could not be collected (missing.txt says why)", len(b.Lacks()))
	}
	fmt.Fprintln(out, ".\nRead through it before you pass it on.")
	return nil
}
