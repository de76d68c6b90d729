package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/cmd/nodejoin/internal/ui"
	"nodejoin/plan"
	"nodejoin/steps/doctor"
	"nodejoin/steps/host"
	"nodejoin/steps/node"
	"nodejoin/steps/supervise"
	"nodejoin/steps/wait"
)

const (
	// resumeStarts is how often the service may start after one reboot, in case the machine
	// goes down again and again while the plan is finished.
	resumeStarts = 3
	// resumeTries is how often one start tries while machines or the cluster do not answer
	// yet; resumePause is the time between two tries.
	resumeTries = 20
	resumePause = 15 * time.Second
	// startTries is how often a machine that is still starting is asked, with the same pause.
	startTries = 40
	// Limits of the log: bytes per file, and how many older files are kept.
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
		log, err := supervise.OpenLog(resumeLog(runtime.GOOS), resumeLogSize, resumeLogKeep)
		if err != nil {
			return err
		}
		say := node.SayTo(log)
		code := node.Service{Name: doctor.ResumeService, Say: say, Ends: true,
			Work: func(ctx context.Context, report func(node.Level, string)) error {
				h, err := connect.Local(plan.Node{DataDir: filepath.Dir(filepath.Dir(args[0]))})
				if err == nil {
					err = (&resuming{execute: execute, machine: h, file: args[0], out: log, say: say, report: report,
						pause: resumePause}).run(ctx)
				}
				if err != nil {
					say("ended: " + err.Error())
				}
				return err
			}}.Run()
		if err := log.Close(); err != nil {
			return err
		}
		if code != exitOK {
			return exitError(code)
		}
		return nil
	}
	return c
}

// resuming finishes a plan on the machine that was rebooted for it.
type resuming struct {
	execute runner
	machine connect.Machine
	file    string
	out     io.Writer // for the output of apply
	say     func(string)
	report  func(node.Level, string)
	pause   time.Duration
}

// errNextBoot means that the machine reboots for the plan once more, and that the service
// continues after that.
var errNextBoot = errors.New("the machine reboots once more for the plan")

// run applies the plan and removes the service and its file, whether or not the apply
// succeeded. They stay for the next boot only if the machine has not finished starting, or
// the run is stopped or the machine goes down: for a reboot of the plan, or at most
// resumeStarts times.
func (x *resuming) run(ctx context.Context) error {
	r, err := readResumption(x.file)
	if err == nil {
		err = x.finish(ctx, r)
	}
	if ctx.Err() != nil {
		x.say("stopped; the service continues after the next boot")
		return context.Cause(ctx)
	}
	if errors.Is(err, errStarting) {
		x.report(node.Error, fmt.Sprintf("The plan is not finished: %v. The service continues after the next boot; "+
			"to finish the plan before that, run apply again.", err))
		return err
	}
	if errors.Is(err, errNextBoot) {
		x.say("the machine reboots once more; the service continues after that")
		return nil
	}
	if err != nil {
		text := fmt.Sprintf("The plan is not finished: %v. See %s and run apply again.", err, resumeLog(runtime.GOOS))
		x.report(node.Error, text)
	}
	return errors.Join(err, x.machine.Remove(ctx, x.file), x.machine.DeleteOwnService(ctx, doctor.ResumeService))
}

func (x *resuming) finish(ctx context.Context, r *resumption) error {
	if r.Starts++; r.Starts > resumeStarts {
		return fmt.Errorf("the machine booted %d times while the plan was being finished; it is not tried again", r.Starts)
	}
	text, err := r.text()
	if err == nil {
		err = x.machine.WriteFile(ctx, x.file, strings.NewReader(text), host.WriteOptions{Access: host.AccessPrivate})
	}
	if err == nil {
		err = r.useFolders()
	}
	if err != nil {
		return err
	}
	if err := x.started(ctx); err != nil {
		return err
	}
	x.say(fmt.Sprintf("node %s: finishing the plan %s", r.Node, r.saved.Path))
	for try := 1; ; try++ {
		code := x.apply(ctx, r)
		x.say(fmt.Sprintf("nodejoin apply ended with exit code %d", code))
		switch {
		case code == exitOK:
			x.report(node.Info, fmt.Sprintf("The plan is finished on node %s.", r.Node))
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case code == exitReboot && x.continues(r):
			return errNextBoot
		case code != exitUnreachable && code != exitLocked || try == resumeTries:
			// Other codes may change: the network may come up late, another run may end.
			return fmt.Errorf("nodejoin apply ended with exit code %d", code)
		}
		x.say(fmt.Sprintf("next try in %v", x.pause))
		if err := wait.Pause(ctx, x.pause); err != nil {
			return err
		}
	}
}

// errStarting means that the machine did not come to answer what a plan asks it.
var errStarting = errors.New("the machine has not finished starting")

// started waits until the machine answers what a plan asks first. What starts with a
// machine may find its network, service manager or HNS not there yet, and their calls fail.
func (x *resuming) started(ctx context.Context) error {
	said := ""
	for try := 1; ; try++ {
		err := x.answers(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case try == startTries:
			return fmt.Errorf("%w: %w", errStarting, err)
		case err.Error() != said:
			said = err.Error()
			x.say("waiting for the machine to finish starting: " + said)
		}
		if err := wait.Pause(ctx, x.pause); err != nil {
			return err
		}
	}
}

// answers asks the machine once.
func (x *resuming) answers(ctx context.Context) error {
	if _, err := x.machine.Facts(ctx); err != nil {
		return err
	}
	adapters, err := x.machine.Adapters(ctx)
	if err == nil && len(adapters) == 0 {
		err = errors.New("no network adapter has an address")
	}
	if err != nil {
		return err
	}
	if _, err := x.machine.Service(ctx, doctor.ResumeService); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = x.machine.HNSNetworks(ctx)
	if errors.Is(err, host.ErrUnsupported) {
		return nil
	}
	return err
}

// continues reports whether apply left the rest of the plan for after a reboot that it made.
func (x *resuming) continues(r *resumption) bool {
	next, err := readResumption(x.file)
	return err == nil && next.Reboots > r.Reboots
}

// apply runs the command for this node, with the same files and values as before.
func (x *resuming) apply(ctx context.Context, r *resumption) int {
	a := &app{term: &ui.Term{Out: x.out, Err: x.out, In: strings.NewReader("")}, resumed: r}
	return x.execute(ctx, a, append([]string{"apply", "--display", "plain"}, r.Flags...))
}
