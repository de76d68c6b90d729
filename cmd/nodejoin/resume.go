package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/resume"
	"nodejoin/cmd/nodejoin/internal/selection"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/node"
	"nodejoin/steps/supervise"
)

// Limits of the service's log: bytes per file, and how many older files are kept.
const (
	resumeLogSize = 1 << 20
	resumeLogKeep = 3
)

func newResume(execute runner) *cobra.Command {
	c := &cobra.Command{
		Use:   "resume FILE",
		Short: "Finish a plan after a reboot",
		Long: "The service " + doctor.ResumeService +
			" runs this. Apply installs it before it reboots the machine that it runs on.",
		Hidden: true,
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{c, errors.New("resume needs the file that apply wrote")}
		}
		return nil
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		log, err := supervise.OpenLog(resume.Log(runtime.GOOS), resumeLogSize, resumeLogKeep)
		if err != nil {
			return err
		}
		say := node.SayTo(log)
		code := node.Service{Name: doctor.ResumeService, Say: say, Ends: true,
			Work: func(ctx context.Context, report func(node.Level, string)) error {
				h, err := connect.Local(plan.Node{DataDir: filepath.Dir(filepath.Dir(args[0]))})
				if err == nil {
					err = (&resume.Run{Machine: h, Path: args[0], Apply: applyAgain(execute, log), Say: say,
						Report: report, Pause: resume.Pause}).Do(ctx)
				}
				if err != nil {
					say("ended: " + err.Error())
				}
				return err
			}}.Run()
		if err := log.Close(); err != nil {
			return err
		}
		return exit(code)
	}
	return c
}

// applyAgain returns the Apply of a resume.Run: it runs the command with the same files and values as before the
// reboot, and writes its output to out.
func applyAgain(execute runner, out io.Writer) func(context.Context, *resume.File) (int, resume.Outcome) {
	return func(ctx context.Context, f *resume.File) (int, resume.Outcome) {
		a := &app{term: &ui.Term{Out: out, Err: out, In: strings.NewReader("")}, resumed: f}
		code := execute(ctx, a, append([]string{"apply", "--display", "plain"}, f.Flags...))
		switch code {
		case exitOK:
			return code, resume.Finished
		case exitReboot:
			return code, resume.Rebooting
		case exitUnreachable, exitLocked:
			return code, resume.Waiting
		}
		return code, resume.Failed
	}
}

// resumer returns engine.Options.Resume: how this machine finishes its part of the plan
// after a reboot.
func (a *app) resumer(ctx context.Context, args []string) func(plan.Node, host.Facts) (*engine.Resume, error) {
	type answer struct {
		resume *engine.Resume
		err    error
	}
	var mu sync.Mutex
	made := map[string]answer{}
	return func(n plan.Node, f host.Facts) (*engine.Resume, error) {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := made[n.Name]; !ok {
			r, err := a.makeResume(ctx, args, n, f)
			made[n.Name] = answer{r, err}
		}
		return made[n.Name].resume, made[n.Name].err
	}
}

func (a *app) makeResume(ctx context.Context, args []string, n plan.Node, f host.Facts) (*engine.Resume, error) {
	switch {
	case a.resumed != nil:
		return a.resumeAgain(n, f)
	case f.OS == "linux" && f.Init != "systemd":
		return nil, errors.New("nodejoin itself runs on it, " +
			"and nothing there starts services after a reboot (systemd is not process 1)")
	}
	r, err := a.resumption(ctx, args, n)
	if err != nil {
		return nil, err
	}
	program, sum, err := supervise.Self()
	if err != nil {
		return nil, fmt.Errorf("nodejoin's own program cannot be copied for after the reboot: %w", err)
	}
	text, err := r.Text()
	if err != nil {
		return nil, err
	}
	return resume.Steps(f, steps.Source{File: program, SHA256: sum}, text), nil
}

// resumeAgain is for a plan with more than one reboot, such as before and after features are turned on. The
// service already exists; it is set to continue after one more reboot.
func (a *app) resumeAgain(n plan.Node, f host.Facts) (*engine.Resume, error) {
	planned := 0
	for _, s := range n.Steps {
		if kinds.Of(s).Reboots {
			planned++
		}
	}
	if a.resumed.Reboots >= planned {
		return nil, errors.New("it has already been rebooted for this plan; reboot it by hand if it must be rebooted again")
	}
	text, err := a.resumed.Next().Text()
	if err != nil {
		return nil, err
	}
	return resume.FileStep(f, text), nil
}

// resumption describes what this run does on one node, for a service that does not have
// this run's environment.
func (a *app) resumption(ctx context.Context, args []string, n plan.Node) (*resume.File, error) {
	var needs []string
	b := &app{term: a.term, vars: a.vars, varFiles: a.varFiles, environment: a.environment,
		targets: ofNode(a.targets, n), skips: ofNode(a.skips, n)}
	b.env = func(name string) (string, bool) {
		v, ok := a.lookupEnv(name)
		if ok && !resume.Carries(name) && !slices.Contains(needs, name) {
			needs = append(needs, name)
		}
		return v, ok
	}
	if len(b.targets) == 0 {
		b.targets = []string{n.Address}
	}
	c, diags, _, err := b.compile(ctx, args)
	if err == nil && diags.HasErrors() {
		err = fmt.Errorf("the plan changed while it was read: %w", diags)
	}
	if err == nil {
		err = selection.Apply(c, b.targets, b.skips)
	}
	if err != nil {
		return nil, err
	}
	p, err := b.describe(ctx, args, c, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range p.Secret {
		needs = append(needs, "--var "+name)
	}
	if len(needs) > 0 {
		slices.Sort(needs)
		return nil, fmt.Errorf("nodejoin itself runs on it, and the service that would finish the plan after the reboot "+
			"does not have what the plan takes only from this run: %s. Put it into a file (--var-file) that only "+
			"administrators can read, or reboot by hand",
			strings.Join(needs, ", "))
	}
	return resume.New(n.Name, p, a.applyFlags())
}

// ofNode are the addresses that name a node or a step of it.
func ofNode(addresses []string, n plan.Node) []string {
	var out []string
	for _, t := range addresses {
		if t == n.Address || t == n.Name || strings.HasPrefix(t, n.Address+".") || strings.HasPrefix(t, n.Name+".") {
			out = append(out, t)
		}
	}
	return out
}

// applyFlags are the flags of this apply that also apply after the reboot.
func (a *app) applyFlags() []string {
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"allow-downgrade", a.downgrade}, {"delete-emptydir-data", a.drain.DeleteEmptyDirData}, {"force", a.drain.Force},
		{"prune-changed", a.pruneChanged}} {
		if f.set {
			out = append(out, "--"+f.name)
		}
	}
	if a.drain.Timeout > 0 {
		out = append(out, "--drain-timeout="+a.drain.Timeout.Round(time.Second).String())
	}
	return out
}
