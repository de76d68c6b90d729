package firstboot

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/flagvalue"
	"nodejoin/cmd/nodejoin/internal/planbundle"
	"nodejoin/plan"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/kinds"
)

// App is what the commands share with the others of nodejoin.
type App struct {
	// PlanFlags are those of a command that reads a plan.
	PlanFlags func(*cobra.Command)
	// Load compiles the plan that the arguments name. values are those that were given for it, and needs what else of
	// this machine it was read with.
	Load func(ctx context.Context, args []string) (l Loaded, err error)
	// Failed prints a failure, and returns the error that ends the command.
	Failed func(error) error
	// Apply runs 'nodejoin apply' for a part of the plan, which is noted in the folder notes; "" = where runs are noted.
	Apply func(r Alone, notes string) Apply
	// Approve asks the question; without a terminal to ask on it may fail with the advice.
	Approve func(ctx context.Context, p *plan.Compiled, question, advice string) error
	// Options are those of a session, whose events go to sink.
	Options func(p *plan.Compiled, sink func(event.Event)) engine.Options
	Exit    func(code int) error
	Usage   func(*cobra.Command, error) error
	Notice  func(string)
	Say     func(format string, args ...any) // on Out, in lines that fit
	Out     io.Writer
}

// Loaded is a plan with what it was read with.
type Loaded struct {
	Plan        *plan.Compiled
	Values      map[string]string
	Needs       []string // of this machine: environment variables, files of values
	Environment string
}

// ended is the error that ends a command; one of a step or the cluster is printed as others of its kind.
func (a App) ended(err error) error {
	if err == nil || steps.AsError(err).Summary == steps.AsError(errors.New("")).Summary {
		return err
	}
	return a.Failed(err)
}

// command is one run of user-data.
type command struct {
	App
	format, from, program, out string
	ttl                        time.Duration
}

// UserData is nodejoin user-data.
func UserData(a App) *cobra.Command {
	x := &command{App: a, ttl: defaultTTL}
	c := &cobra.Command{
		Use:   "user-data BUNDLE [NODE] --for FORMAT --from PLACE",
		Short: "Write user data with which machines join at their first boot",
		Long: `Writes what a machine gets from its cloud or its image, so that it joins by itself when it
starts for the first time: it fetches nodejoin and the bundle from PLACE, verifies their
digests, and applies its own part of the plan. No controller has to reach it.

BUNDLE is a plan in one file ('nodejoin bundle'). PLACE is the address of a folder that has
the bundle and nodejoin, or the folder's absolute path on the machine, in an image for example.

The user data is for one machine: it has a certificate of this Node, and a token of an account
that may change this Node only. Both live for --token-ttl. The token ends when the machine has
joined, and with the next user data of the node. The certificate cannot be revoked: keep the
user data secret until it ends.

Without NODE it is written for each node of the plan that the format is for, into the folder
that -o names. Files are readable by their owner only.`,
		Example: `  nodejoin user-data prod.tar lin-1 --for cloud-init --from https://files.example/join -o lin-1.yaml
  nodejoin user-data prod.tar --for ec2launch --from https://files.example/join --program nodejoin.exe -o data`,
	}
	a.PlanFlags(c)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) > 2 {
			return a.Usage(c, errors.New("give a bundle, and at most one node"))
		}
		return nil
	}
	f := c.Flags()
	f.Var(flagvalue.OneOf{Value: &x.format, Values: formatNames}, "for",
		"the program that sets the machine up: "+strings.Join(formatNames, ", "))
	f.StringVar(&x.from, "from", "", "the `place` of the bundle and nodejoin: an http(s) address, or a path on machines")
	f.StringVar(&x.program, "program", "", "nodejoin for the machine, a `file` here; default this program")
	f.Var((*flagvalue.Bound)(&x.ttl), "token-ttl", "life of the certificate and the token, from 10m to 24h")
	f.StringVarP(&x.out, "out", "o", "", "`file`, or without NODE the folder for files; default standard output")
	c.RunE = x.run
	return c
}

func (x *command) run(c *cobra.Command, args []string) error {
	if err := x.check(args); err != nil {
		return x.Usage(c, err)
	}
	l, err := x.Load(c.Context(), args[:1])
	if err != nil {
		return err
	}
	if len(l.Needs) > 0 {
		return fmt.Errorf("the plan takes from this machine what the bundle does not have: %s; give it with --var",
			strings.Join(l.Needs, ", "))
	}
	nodes, err := x.nodes(l.Plan, args[1:])
	if err != nil {
		return x.ended(err)
	}
	return x.ended(x.write(c.Context(), args[0], l, nodes, len(args) == 1))
}

// check refuses flags that do not go together.
func (x *command) check(args []string) error {
	switch {
	case x.format == "":
		return errors.New("--for is missing: " + strings.Join(formatNames, ", "))
	case x.from == "":
		return errors.New("--from is missing: where the machine gets the bundle and nodejoin")
	case x.ttl < shortest || x.ttl > longest:
		return fmt.Errorf("--token-ttl %v: it must be from %v to %v", x.ttl, shortest, longest)
	case formats[x.format].needsURL && !isURL(x.from):
		return fmt.Errorf("--from: %s fetches files from http(s) addresses only", x.format)
	case !planbundle.Is(args[0]):
		return fmt.Errorf("%s is not a bundle; make one with 'nodejoin bundle PLAN -o FILE.tar'", args[0])
	}
	if i, err := os.Stat(args[0]); err != nil || !i.Mode().IsRegular() {
		return fmt.Errorf("%s is in several files; make a bundle without --split for user data", args[0])
	}
	return place(x.from)
}

// nodes are those that user data is written for.
func (x *command) nodes(p *plan.Compiled, names []string) (out []plan.Node, err error) {
	want := formats[x.format].os
	for _, n := range p.Nodes {
		if len(names) == 0 && n.OS == want || len(names) > 0 && (n.Name == names[0] || n.Address == names[0]) {
			out = append(out, n)
		}
	}
	var have []string
	for _, n := range p.Nodes {
		have = append(have, n.Name)
	}
	switch {
	case p.Cluster == nil:
		return nil, errors.New("the plan has no cluster to join")
	case len(out) == 0 && len(names) == 0:
		return nil, fmt.Errorf("--for %s: it is for machines with %s, and the plan has none", x.format, want)
	case len(out) == 0:
		return nil, fmt.Errorf("the plan has no node %s; it has %s", names[0], strings.Join(have, ", "))
	case out[0].OS != want:
		return nil, fmt.Errorf("--for %s: it is for machines with %s, and %s has %s", x.format, want, out[0].Name, out[0].OS)
	case !slices.ContainsFunc(out[0].Steps, mints):
		return nil, &steps.Error{Code: steps.CodeInvalid, Summary: "this plan cannot join machines at their first boot",
			Detail: fmt.Sprintf("%s: %s joins with a kubeconfig, which is on the controller and not in the bundle",
				p.Cluster.Source, out[0].Name),
			Remedy: `let it join with a token: join "bootstrap_token" or join "kubeadm" in the cluster block`}
	case slices.ContainsFunc(out, logsIn):
		return nil, &steps.Error{Code: steps.CodeInvalid, Summary: "user data has no login of a follow block",
			Detail: "a node that follows a plan from a server that wants a login gets that from a controller; neither " +
				"a bundle nor user data has it",
			Remedy: "leave the block login out of the bundle's plan, and give it to the node by an apply later"}
	case len(out) > 1 && x.out == "":
		return nil, fmt.Errorf("there are %d nodes: name one, or the folder for their files with -o", len(out))
	}
	return out, nil
}

// mints reports whether a step makes a bootstrap token.
func mints(s steps.Spec) bool {
	t, ok := kinds.As[kinds.BootstrapToken](s)
	return ok && !t.Absent
}

// logsIn reports whether a node follows a plan with a login.
func logsIn(n plan.Node) bool {
	return slices.ContainsFunc(n.Steps, func(s steps.Spec) bool { return s.ID == recipe.FollowLoginStep })
}

// write gives each node access, and writes its user data, into files of a folder or into one.
func (x *command) write(ctx context.Context, bundle string, l Loaded, nodes []plan.Node,
	folder bool) error {
	program, err := x.fetched(nodes)
	if err != nil {
		return err
	}
	sum, err := digest(bundle)
	if err != nil {
		return err
	}
	api, err := connect.Cluster(l.Plan)(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		f := File{Version: fileVersion, Node: n.Name, Values: maps.Clone(l.Values), Environment: l.Environment,
			Bundle: Fetched{join(x.from, filepath.Base(bundle)), sum}}
		if err := f.give(ctx, api, l.Plan, n, x.ttl); err != nil {
			return err
		}
		if err := x.one(f, n, program, folder); err != nil {
			return err
		}
	}
	return nil
}

// one writes the user data of one node.
func (x *command) one(f File, n plan.Node, program Fetched, folder bool) error {
	b, err := f.text()
	if err != nil {
		return err
	}
	form := formats[x.format]
	text, err := userData{Node: n.Name, Arch: n.Arch, Join: b, Program: program}.render(form)
	if err != nil {
		return err
	}
	if len(text) > form.limit {
		return fmt.Errorf("the user data of %s has %d bytes, and %s takes %d; put values into the bundle, as "+
			"*.auto.joinvars beside the plan", n.Name, len(text), x.format, form.limit)
	}
	if who := tooLarge(len(text)); who != "" && !form.answers() {
		x.Notice(fmt.Sprintf("The user data of %s has %d bytes. Too large for %s.", n.Name, len(text), who))
	}
	_, later := own(n.Steps)
	var titles []string
	for _, s := range later {
		titles = append(titles, s.Title)
	}
	if len(titles) > 0 {
		x.Notice(fmt.Sprintf("%s leaves to the next apply: %s.", n.Name, strings.Join(titles, "; ")))
	}
	until := f.Expires.UTC().Format(time.RFC3339)
	if x.out == "" {
		if f, ok := x.Out.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
			x.Notice("This is a secret: it has a key and a token that are good until " + until + ".")
		}
		_, err = x.Out.Write(text)
		return err
	}
	at := x.out
	if folder {
		if err := os.MkdirAll(x.out, 0o700); err != nil {
			return err
		}
	}
	if i, err := os.Stat(x.out); err == nil && i.IsDir() {
		at = filepath.Join(x.out, form.fileName(n.Name))
	}
	if err := atomicfile.Write(at, text, 0o600); err != nil {
		return err
	}
	x.Notice(fmt.Sprintf("Wrote %s for %s: %d bytes, good until %s. Keep it secret until then.", at, n.Name, len(text),
		until))
	return nil
}

// fetched is nodejoin for the machines.
func (x *command) fetched(nodes []plan.Node) (Fetched, error) {
	at := x.program
	if at == "" {
		var err error
		if at, err = os.Executable(); err != nil {
			return Fetched{}, err
		}
	}
	info, err := buildinfo.ReadFile(at)
	if err != nil || !strings.HasPrefix(info.Path+".", "nodejoin/cmd/nodejoin.") {
		return Fetched{}, fmt.Errorf("--program %s: it is not a program of nodejoin", at)
	}
	if err := fits(at, info, nodes); err != nil {
		return Fetched{}, err
	}
	sum, err := digest(at)
	return Fetched{join(x.from, filepath.Base(at)), sum}, err
}

// fits refuses a program of another platform than the machines have.
func fits(at string, info *debug.BuildInfo, nodes []plan.Node) error {
	of := func(key string) string {
		i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == key })
		if i < 0 {
			return ""
		}
		return info.Settings[i].Value
	}
	platform := of("GOOS") + "/" + of("GOARCH")
	for _, n := range nodes {
		if want := n.OS + "/" + n.Arch; platform != want {
			return fmt.Errorf("%s is for %s, and %s has %s: give nodejoin for it with --program", at, platform, n.Name, want)
		}
	}
	return nil
}

// digest is the sha256 of a file.
func digest(name string) (string, error) {
	in, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // it was only read
	sum := sha256.New()
	_, err = io.Copy(sum, in)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// FirstBoot is nodejoin first-boot, which the user data runs.
func FirstBoot(a App) *cobra.Command {
	c := &cobra.Command{
		Use:    "first-boot FILE",
		Short:  "Join this machine at its first boot",
		Long:   "The user data that 'nodejoin user-data' writes runs this. It joins this machine, and removes FILE.",
		Hidden: true,
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return a.Usage(c, errors.New("first-boot needs the file of the user data"))
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		r := &Run{Path: args[0], Say: a.Notice}
		r.Apply = a.Apply(r, "")
		code, err := r.Do(c.Context())
		if err != nil {
			return a.ended(err)
		}
		return a.Exit(code)
	}
	return c
}
