package firstboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nodejoin/cmd/nodejoin/internal/history"
	"nodejoin/cmd/nodejoin/internal/holder"
	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/generalize"
)

// baking is one run of bake.
type baking struct {
	App
	auto bool // --auto-approve
}

// Bake is nodejoin bake.
func Bake(a App) *cobra.Command {
	x := &baking{App: a}
	c := &cobra.Command{
		Use:   "bake PLAN [NODE]",
		Short: "Prepare a machine as an image of nodes",
		Long: `Prepares the machine of NODE as an image. It does the steps of the plan that are the same on
every machine like it: programs, settings, features of Windows, container images. It leaves
out, and lists, the steps with a secret, a name or an address, and the join itself. Copies of
the machine then join faster, with 'nodejoin apply' or at their first boot ('nodejoin user-data').

At the end the machine's SSH host keys, its machine id, leases, logs and the state of cloud-init
are removed, and all that nodejoin wrote is searched for secrets, keys, certificates, tokens and
the machine's name, id and addresses. If one is found, the machine is not an image: the
exit code is 1, and the error names the files.

Shut the machine down after that and copy its disk; on Windows run Sysprep first. A machine
that has joined is refused. NODE may be left out where the plan has one node.`,
		Example: `  nodejoin bake plans/prod lin-1
  nodejoin bake plans/prod win-1 --auto-approve`,
	}
	a.PlanFlags(c)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) > 2 {
			return a.Usage(c, errors.New("give a plan, and at most one node"))
		}
		return nil
	}
	c.Flags().BoolVar(&x.auto, "auto-approve", false, "do not ask for approval")
	c.RunE = x.run
	return c
}

func (x *baking) run(c *cobra.Command, args []string) error {
	ctx := c.Context()
	l, err := x.Load(ctx, args[:1])
	if err != nil {
		return err
	}
	n, err := x.node(l.Plan, args[1:])
	if err != nil {
		return err
	}
	notes := ""
	if n.Connection.Type == "local" {
		if notes, err = here(n.Name); err != nil {
			return x.Failed(err)
		}
		defer func() { _ = os.RemoveAll(notes) }() // what is left is in the folder for temporary files
	}
	req := generalization(n)
	part := image{n.Name}
	if err := part.Prepare(ctx, l.Plan); err != nil {
		return err
	}
	req.Check = true
	if _, err := x.generalize(ctx, l.Plan, req); err != nil {
		return err
	}
	x.list(n)
	if !x.auto {
		if err := x.Approve(ctx, l.Plan, fmt.Sprintf("Prepare %s as an image, without its host keys and machine id?",
			n.Name), "run bake with --auto-approve"); err != nil {
			return err
		}
	}
	apply := append([]string{"apply", "--auto-approve", args[0]}, given(c)...)
	if code, o := x.Apply(part, notes)(ctx, apply); o != Finished {
		if o == Rebooting {
			x.Notice("Reboot the machine, and run bake again.")
		}
		return x.Exit(code)
	}
	req.Check = false
	r, err := x.generalize(ctx, l.Plan, req)
	if err == nil {
		x.result(n, r)
	}
	return err
}

// here keeps this machine, which is to become an image, free of notes about runs: the caller removes the folder for
// those of this one, those of a bake that was killed go now, and other earlier ones are an error. They have names and
// addresses.
func here(node string) (notes string, err error) {
	root, err := history.Root()
	if err != nil {
		return "", err
	}
	switch earlier, err := os.ReadDir(root); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case len(earlier) > 0:
		return "", &steps.Error{Code: steps.CodeFailed, Summary: unfit,
			Detail: node + " has notes about earlier runs of nodejoin (" + root + "); nothing was changed",
			Remedy: "remove that folder and run bake again"}
	}
	const name = "nodejoin-bake-"
	killed, err := filepath.Glob(filepath.Join(os.TempDir(), name+"*"))
	for _, dir := range killed {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return "", fmt.Errorf("remove the notes of a bake that was killed: %w", err)
	}
	return os.MkdirTemp("", name)
}

// unfit is an error's summary.
const unfit = "the machine is not fit to be an image"

// generalize makes the machine of the one node fit to be copied. What is left of the machine is a failure.
func (x *baking) generalize(ctx context.Context, p *plan.Compiled, req generalize.Request) (generalize.Reply, error) {
	opt := x.Options(p, func(event.Event) {})
	opt.Holder = holder.New("bake")
	s := engine.New(p, opt)
	defer s.Close()
	done := s.Generalize(ctx, func(plan.Node) generalize.Request { return req })[0]
	r := done.Reply
	switch {
	case done.Err != nil:
		return r, x.Failed(done.Err)
	case len(r.Left) == 0:
		return r, nil
	}
	e := &steps.Error{Code: steps.CodeFailed, Summary: unfit,
		Detail: req.Node + " has " + texts(r.Left),
		Remedy: "remove that and run bake again, or bake a machine without it"}
	if req.Check {
		e.Detail += "; nothing was changed"
	}
	return r, x.Failed(e)
}

// node is the one whose machine becomes an image.
func (x *baking) node(p *plan.Compiled, name []string) (plan.Node, error) {
	var have []string
	for _, n := range p.Nodes {
		if len(name) > 0 && (n.Name == name[0] || n.Address == name[0]) || len(name) == 0 && len(p.Nodes) == 1 {
			return n, nil
		}
		have = append(have, n.Name)
	}
	if len(name) == 0 {
		return plan.Node{}, fmt.Errorf("the plan has %d nodes: name the one whose machine becomes an image", len(have))
	}
	return plan.Node{}, fmt.Errorf("the plan has no node %s; it has %s", name[0], strings.Join(have, ", "))
}

// list prints what is left out of the image.
func (x *baking) list(n plan.Node) {
	mine, later := divide(n)
	x.Say("%s: %d of %d steps are in the image. Left to the join:", n.Name, len(mine), len(n.Steps))
	for _, why := range reasons {
		var ids []string
		for _, s := range later {
			if s.why == why {
				ids = append(ids, s.ID)
			}
		}
		if len(ids) > 0 {
			x.Say("- %s: %s", why, strings.Join(ids, ", "))
		}
	}
}

// given are the flags of a command, for another with the same.
func given(c *cobra.Command) (args []string) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "auto-approve" {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	return args
}

// result prints what became of the machine.
func (x *baking) result(n plan.Node, r generalize.Reply) {
	x.Say("%s is ready to be an image.", n.Name)
	if len(r.Removed) > 0 {
		x.Say("Removed: %s.", texts(r.Removed))
	}
	x.Say("Searched: %d files have no secret, key, certificate, token, name, id or address of it.", r.Files)
	if n.Connection.Type == "local" {
		stays := "The plan and its values"
		if cache, err := os.UserCacheDir(); err == nil {
			stays = "The plan, its values and what nodejoin has unpacked in its cache (" +
				filepath.Join(cache, "nodejoin") + ")"
		}
		x.Say("%s are on it, and were not searched. Remove them before the disk is copied.", stays)
	}
	if n.OS == "windows" {
		x.Say(`Run 'C:\Windows\System32\Sysprep\sysprep.exe /generalize /oobe /shutdown' on it, and copy its disk.`)
		return
	}
	x.Say("Shut the machine down and copy its disk. If it boots again, it gets new keys and a new machine id.")
}

// texts lists what was found, with where it is.
func texts(list []generalize.Found) string {
	var out []string
	for _, f := range list {
		out = append(out, f.What+" ("+f.Path+")")
	}
	return strings.Join(out, ", ")
}
