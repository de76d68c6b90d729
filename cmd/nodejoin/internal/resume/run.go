package resume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/connect"
	"nodejoin/steps/doctor"
	"nodejoin/steps/host"
	"nodejoin/steps/node"
	"nodejoin/steps/wait"
)

const (
	// MaxStarts is how often the service may start after one reboot, in case the machine
	// goes down again and again while the plan is finished.
	MaxStarts = 3
	// tries is how often one start tries while machines or the cluster do not answer
	// yet; Pause is the time between two tries.
	tries = 20
	Pause = 15 * time.Second
	// startTries is how often a machine that is still starting is asked, with the same pause.
	startTries = 40
)

// Outcome is what the end of an apply means for the plan.
type Outcome int

// What may become of an apply.
const (
	Failed    Outcome = iota // trying again does not help
	Finished                 // all is done
	Rebooting                // a reboot is pending
	Waiting                  // a machine or the cluster does not answer, or another run holds it; both may change
)

// Run finishes a plan on the machine that was rebooted for it.
type Run struct {
	Machine connect.Machine
	Path    string // of the File
	// Apply applies the plan once and returns the exit code of the command with its meaning.
	Apply  func(context.Context, *File) (code int, o Outcome)
	Say    func(string)
	Report func(node.Level, string)
	Pause  time.Duration
}

// errNextBoot means that the machine reboots for the plan once more, and that the service
// continues after that.
var errNextBoot = errors.New("the machine reboots once more for the plan")

// Do applies the plan and removes the service and its file, whether or not the apply
// succeeded. They stay for the next boot only if the machine has not finished starting, or
// the run is stopped or the machine goes down: for a reboot of the plan, or at most
// MaxStarts times.
func (x *Run) Do(ctx context.Context) error {
	r, err := Read(x.Path)
	if err == nil {
		err = x.finish(ctx, r)
	}
	if ctx.Err() != nil {
		x.Say("stopped; the service continues after the next boot")
		return context.Cause(ctx)
	}
	if errors.Is(err, ErrStarting) {
		x.Report(node.Error, fmt.Sprintf("The plan is not finished: %v. The service continues after the next boot; "+
			"to finish the plan before that, run apply again.", err))
		return err
	}
	if errors.Is(err, errNextBoot) {
		x.Say("the machine reboots once more; the service continues after that")
		return nil
	}
	if err != nil {
		text := fmt.Sprintf("The plan is not finished: %v. See %s and run apply again.", err, Log(runtime.GOOS))
		x.Report(node.Error, text)
	}
	return errors.Join(err, x.Machine.Remove(ctx, x.Path), x.Machine.DeleteOwnService(ctx, doctor.ResumeService))
}

func (x *Run) finish(ctx context.Context, r *File) error {
	if r.Starts++; r.Starts > MaxStarts {
		return fmt.Errorf("the machine booted %d times while the plan was being finished; it is not tried again",
			r.Starts)
	}
	text, err := r.Text()
	if err == nil {
		err = x.Machine.WriteFile(ctx, x.Path, strings.NewReader(text), host.WriteOptions{Access: host.AccessPrivate})
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
	x.Say(fmt.Sprintf("node %s: finishing the plan %s", r.Node, r.Saved.Path))
	for try := 1; ; try++ {
		code, outcome := x.Apply(ctx, r)
		x.Say(fmt.Sprintf("nodejoin apply ended with exit code %d", code))
		switch {
		case outcome == Finished:
			x.Report(node.Info, fmt.Sprintf("The plan is finished on node %s.", r.Node))
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case outcome == Rebooting && x.continues(r):
			return errNextBoot
		case outcome != Waiting || try == tries:
			return fmt.Errorf("nodejoin apply ended with exit code %d", code)
		}
		x.Say(fmt.Sprintf("next try in %v", x.Pause))
		if err := wait.Pause(ctx, x.Pause); err != nil {
			return err
		}
	}
}

// ErrStarting means that the machine did not come to answer what a plan asks it.
var ErrStarting = errors.New("the machine has not finished starting")

// started waits until the machine answers what a plan asks first. What starts with a
// machine may find its network, service manager or HNS not there yet, and their calls fail.
func (x *Run) started(ctx context.Context) error {
	said := ""
	for try := 1; ; try++ {
		err := x.answers(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case try == startTries:
			return fmt.Errorf("%w: %w", ErrStarting, err)
		case err.Error() != said:
			said = err.Error()
			x.Say("waiting for the machine to finish starting: " + said)
		}
		if err := wait.Pause(ctx, x.Pause); err != nil {
			return err
		}
	}
}

// answers asks the machine once.
func (x *Run) answers(ctx context.Context) error {
	if _, err := x.Machine.Facts(ctx); err != nil {
		return err
	}
	adapters, err := x.Machine.Adapters(ctx)
	if err == nil && len(adapters) == 0 {
		err = errors.New("no network adapter has an address")
	}
	if err != nil {
		return err
	}
	if _, err := x.Machine.Service(ctx, doctor.ResumeService); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = x.Machine.HNSNetworks(ctx)
	if errors.Is(err, host.ErrUnsupported) {
		return nil
	}
	return err
}

// continues reports whether apply left the rest of the plan for after a reboot that it made.
func (x *Run) continues(r *File) bool {
	next, err := Read(x.Path)
	return err == nil && next.Reboots > r.Reboots
}
