package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/engine"
	"nodejoin/steps/selftest"
)

// selfTesting is doctor --self-test.
type selfTesting struct {
	*app
	areas, out string // --self-test, --output
	confirmed  bool   // --yes-change-this-machine
}

func (x *selfTesting) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&x.areas, "self-test", "", "test each call that nodejoin makes, on this machine or, with PLAN, on its "+
		"hosts; or only these `areas`")
	f.Lookup("self-test").NoOptDefVal = "all"
	f.BoolVar(&x.confirmed, "yes-change-this-machine", false, "with --self-test: change the machine, and change it back")
	f.StringVarP(&x.out, "output", "o", "evidence", "with --self-test: the `folder` for its JSON file")
}

func (x *selfTesting) run(c *cobra.Command, args []string) error {
	req, err := selftest.Parse(x.areas)
	switch {
	case err != nil:
		return usageError{c, err}
	case x.json:
		return usageError{c, errors.New("--self-test takes no --json: it writes JSON files to --output")}
	case !x.confirmed:
		return usageError{c, errors.New("--self-test registers a service, a firewall rule, an authority and more of its " +
			"own, adds a loopback adapter with HNS networks, requests a reboot that it aborts, and removes all of it; " +
			"add --yes-change-this-machine if the machine may be changed")}
	}
	compiled, err := x.hosts(c.Context(), args)
	if err != nil {
		return err
	}
	x.holder = holder.New("doctor --self-test")
	d := x.newDisplay(ui.OnHosts("Testing", compiled))
	s := engine.New(compiled, x.options(compiled, d.Emit))
	defer s.Close()
	tested := s.SelfTest(c.Context(), req)
	d.Close()
	return x.report(tested, len(args) > 0)
}

// hosts are those of the plan; without one it is this machine.
func (x *selfTesting) hosts(ctx context.Context, args []string) (*plan.Compiled, error) {
	if len(args) > 0 {
		return x.load(ctx, args)
	}
	name, err := os.Hostname()
	return &plan.Compiled{Nodes: []plan.Node{{Name: name, Address: name, OS: runtime.GOOS, Arch: runtime.GOARCH,
		Connection: plan.Connection{Type: "local"}}}}, err
}

// report saves and summarizes the reports. Something otherwise than expected is a failure.
func (x *selfTesting) report(tested []engine.SelfTested, named bool) error {
	code := exitOK
	var ps []ui.Problem
	for _, t := range tested {
		if t.Err != nil {
			p := ui.ProblemOf(t.Err)
			p.Host, p.Source = t.Node.Name, t.Node.Connection.Source
			ps, code = append(ps, p), worst(code, errorCode(t.Err))
			continue
		}
		node := ""
		if named {
			node = t.Node.Name
		}
		file, err := t.Report.Save(x.out, node)
		if err != nil {
			return fmt.Errorf("--output %s: %w", x.out, err)
		}
		fmt.Fprintf(x.term.Out, "%s: ", ui.CleanLine(t.Node.Name))
		t.Report.Summarize(x.term.Out)
		fmt.Fprintf(x.term.Out, "  %s\n", ui.CleanLine(file))
		if !t.Report.AsBefore || t.Report.Count(selftest.Otherwise) > 0 {
			code = worst(code, exitFailed)
		}
	}
	x.problems(ui.Fold(ps), nil)
	return exit(code)
}
