package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps"
)

// initializer is one run of init.
type initializer struct {
	*app
	answers
	hosts []string // of --host, name=address
	input *bufio.Reader
}

func newInit(a *app) *cobra.Command {
	i := &initializer{app: a}
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write a first plan, from answers or flags",
		Long: `Writes FOLDER/NAME.join.hcl (default: this folder), a plan with comments that joins
Windows hosts to a cluster. On a terminal it asks for what no flag says. Nothing is
overwritten, and a plan that would not be valid is not written.

With --mirror the digests of the artifacts that lie in that folder are put into the
plan. Without it the plan has a variable for them, and says what of.`,
		Example: `  nodejoin init plans/prod            asks
  nodejoin init --name prod --api-server https://10.0.0.10:6443 \
    --host win-1=10.0.0.21 --host win-2=10.0.0.22 --mirror ./mirror plans/prod
  nodejoin init --sandbox demo        simulated machines and a simulated cluster`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{c, errors.New("one folder at a time")}
			}
			return nil
		},
	}
	f := c.Flags()
	for _, q := range i.questions() {
		f.StringVar(q.value, q.flag, "", q.help)
	}
	f.StringArrayVar(&i.hosts, "host", nil, "a machine, `name=address`; may be repeated")
	f.BoolVar(&i.Sandbox, "sandbox", false, "simulated machines and a simulated cluster, in folders beside the plan")
	c.RunE = func(c *cobra.Command, args []string) error {
		folder := "."
		if len(args) > 0 {
			folder = args[0]
		}
		return i.run(c, folder)
	}
	return c
}

func (i *initializer) run(c *cobra.Command, folder string) error {
	if err := unplanned(folder); err != nil {
		return err
	}
	if err := i.collect(c); err != nil {
		return err
	}
	if err := i.locate(folder); err != nil {
		return err
	}
	if err := i.digests(); err != nil {
		return err
	}
	name := filepath.Join(folder, i.Name+plan.Suffix)
	src, diags := plan.Format(name, i.text(folder))
	if diags.HasErrors() {
		return fmt.Errorf("the answers make no plan: %w", diags)
	}
	if err := i.judge(name, src); err != nil {
		return err
	}
	if err := create(name, src); err != nil {
		return err
	}
	out := ui.CleanLine(folder)
	i.term.Say("Wrote %s.", ui.CleanLine(name))
	if len(i.Digests) == 0 {
		i.term.Say("It needs the digests of what is installed, in %s; the plan says how.", ui.CleanLine(filepath.Join(folder, "sha256.auto"+plan.VarSuffix)))
	}
	i.term.Say("Next: nodejoin validate %s, then plan and apply.", out)
	return nil
}

// unplanned refuses a folder that holds a plan: all files of a folder are one plan.
func unplanned(folder string) error {
	switch fi, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%s is no folder; the plan is written into one", folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), plan.Suffix) {
			return fmt.Errorf("%s is there already, and nothing is overwritten: all files of a folder are one plan. Name another folder", filepath.Join(folder, e.Name()))
		}
	}
	return nil
}

// question asks for what a flag says.
type question struct {
	flag, help, ask string
	value           *string
	fallback        func() string
	need            bool // there is no answer that would do for all
	unless          func() bool
	check           func(string) error
}

func (q question) skip() bool { return q.unless != nil && q.unless() }

// collect fills the answers from flags, a person, and what is usual.
func (i *initializer) collect(c *cobra.Command) error {
	var missing []string
	if i.Sandbox {
		for _, f := range []string{"kubeconfig", "user"} {
			if c.Flags().Changed(f) {
				return usageError{c, fmt.Errorf("--%s has no meaning with --sandbox", f)}
			}
		}
	}
	for _, q := range i.questions() {
		switch {
		case c.Flags().Changed(q.flag):
			if err := q.check(*q.value); err != nil {
				return fmt.Errorf("--%s: %w", q.flag, err)
			}
		case q.need && !i.Sandbox:
			missing = append(missing, fmt.Sprintf("--%-12s %s", q.flag, strings.ReplaceAll(q.help, "`", "")))
		}
	}
	for _, h := range i.hosts {
		if err := i.addHost(h); err != nil {
			return fmt.Errorf("--host %s: %w", h, err)
		}
	}
	if len(i.Hosts) == 0 && !i.Sandbox {
		missing = append(missing, fmt.Sprintf("--%-12s a machine, name=address; may be repeated", "host"))
	}
	asks := len(missing) > 0
	if asks && !i.term.InTTY {
		return fmt.Errorf("nobody can be asked here (no terminal), and these are missing:\n  %s", strings.Join(missing, "\n  "))
	}
	for _, q := range i.questions() {
		switch {
		case c.Flags().Changed(q.flag) || q.skip():
		case asks:
			answer, err := i.ask(c.Context(), q.ask, q.fallback(), q.check)
			if err != nil {
				return err
			}
			*q.value = answer
		default:
			*q.value = q.fallback()
		}
	}
	if i.Sandbox && len(i.Hosts) == 0 {
		i.Hosts = []initHost{{"win-1", "192.0.2.11"}, {"win-2", "192.0.2.12"}}
	}
	for asked := len(i.Hosts) == 0; asked; {
		text, enough := "Machine, as name=address", func(s string) error { return i.addHost(s) }
		if len(i.Hosts) > 0 {
			text = "Another machine, name=address (empty: no more)"
			enough = func(s string) error {
				if s == "" {
					return nil
				}
				return i.addHost(s)
			}
		}
		answer, err := i.ask(c.Context(), text, "", enough)
		if err != nil {
			return err
		}
		asked = answer != ""
	}
	return nil
}

// ask puts one question until its answer is accepted; an empty one is the fallback.
func (i *initializer) ask(ctx context.Context, text, fallback string, check func(string) error) (string, error) {
	if i.input == nil {
		i.input = bufio.NewReader(i.term.In)
	}
	for {
		question := ui.CleanLine(text)
		if fallback != "" {
			question += " [" + ui.CleanLine(fallback) + "]"
		}
		fmt.Fprint(i.term.Err, ui.Wrap(question+":", "", i.term.Width())+" ")
		type line struct {
			text string
			err  error
		}
		read := make(chan line, 1)
		go func() { // a read of a terminal knows no context; this one ends with the process
			s, err := i.input.ReadString('\n')
			read <- line{s, err}
		}()
		var l line
		select {
		case l = <-read:
		case <-ctx.Done():
			return "", exitError(exitInterrupted)
		}
		answer := strings.TrimSpace(l.text)
		if l.err != nil && answer == "" {
			if errors.Is(l.err, io.EOF) {
				return "", errors.New("the input ended before all was answered; nothing was written")
			}
			return "", l.err
		}
		if answer == "" {
			answer = fallback
		}
		err := check(answer)
		if err == nil {
			return answer, nil
		}
		fmt.Fprintln(i.term.Err, ui.Wrap(ui.CleanLine(err.Error()), "  ", i.term.Width()))
		if l.err != nil {
			return "", errors.New("the input ended before all was answered; nothing was written")
		}
	}
}

// judge compiles the plan before it is written and prints what is said about it
// under the name that it will have.
func (i *initializer) judge(name string, src []byte) error {
	dir, err := os.MkdirTemp("", "nodejoin-init-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tmp := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(tmp, src, 0o600); err != nil {
		return err
	}
	opt := plan.Options{Vars: map[string]string{}, Env: lookupEnv, Version: version, Dir: filepath.Dir(name)}
	if len(i.Digests) == 0 {
		opt.Vars["sha256"] = anyDigests() // the real ones are given later
	}
	// What the agent is does not matter here, and building it takes long.
	opt.Agent = func(string, string, string) (steps.Source, error) {
		return steps.Source{File: tmp, SHA256: strings.Repeat("0", 64)}, nil
	}
	p, diags := plan.Load(tmp, opt)
	if p != nil && !diags.HasErrors() {
		_, more := p.Compile()
		diags = append(diags, more...)
	}
	for _, d := range diags {
		for _, r := range []*hcl.Range{d.Subject, d.Context} {
			if r != nil && filepath.Base(r.Filename) == filepath.Base(name) {
				r.Filename = name
			}
		}
	}
	i.problems(ui.FromHCL(diags), map[string]*hcl.File{name: {Bytes: src}})
	if diags.HasErrors() {
		fmt.Fprintln(i.term.Err, ui.Wrap("Nothing was written: with these answers the plan would not be valid.", "", i.term.Width()))
		return exitError(exitInvalid)
	}
	return nil
}

// create writes a file that is not there, and its folder.
func create(name string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = os.Remove(name)
		}
	}()
	_, err = f.Write(data)
	return err
}

// addHost takes one name=address.
func (i *initializer) addHost(s string) error {
	h, err := parseHost(s, i.Sandbox)
	if err != nil {
		return err
	}
	for _, o := range i.Hosts {
		switch {
		case o.Name == h.Name:
			return fmt.Errorf("there is a machine %q already", h.Name)
		case strings.EqualFold(o.Address, h.Address):
			return fmt.Errorf("the machine %q has the address %s already", o.Name, h.Address)
		}
	}
	i.Hosts = append(i.Hosts, h)
	return nil
}
