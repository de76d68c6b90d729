// Package heal brings a node back to work after its machine has booted: it runs the boot part of the node's
// steps (steps.BootPlan), which the last apply left in a file, until everything is in order. It is a
// service of the machine, without the plan and without the cluster's credentials.
package heal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/kinds"
	"nodejoin/steps/wait"
)

// Level says who is to read a report.
type Level int

const (
	Info  Level = iota // it is well
	Error              // somebody may have to look
)

// Options of Run.
type Options struct {
	Host host.Host
	Path string // of the file, on Host
	// LockDir is the folder with the lock of the machine, on this computer.
	LockDir string
	Log     func(line string)
	// Report writes to the machine's own event log.
	Report func(l Level, text string)
	// Pause is the first pause after a failure; it doubles up to maxPause. 0 = firstPause.
	Pause time.Duration
}

const (
	firstPause = 5 * time.Second
	maxPause   = 2 * time.Minute
	// maxPlan bounds what is read of the file (bytes); a node has about 10 kB.
	maxPlan = 1 << 20
	// lockLook is how often it reports that another run holds the machine.
	lockLook = time.Minute
)

// Run runs the boot part until a check finds everything in order. It changes the machine only under its
// lock, which it takes only when there is something to do, and waits for other runs. It fails if the file
// cannot be used, and when ctx ends.
func Run(ctx context.Context, o Options) error {
	h := &healer{Options: o}
	plan, err := h.plan(ctx)
	if err != nil {
		h.Report(Error, "The node is not looked after: "+err.Error())
		return err
	}
	h.Log(fmt.Sprintf("node %s: looking at %d steps", plan.Node, len(plan.Steps)))
	pause := o.Pause
	if pause == 0 {
		pause = firstPause
	}
	var changed []string
	for reported := false; ; {
		more, err := h.attempt(ctx, plan)
		changed = append(changed, more...)
		if err == nil {
			h.done(plan.Node, changed)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h.Log(fmt.Sprintf("%v; next try in %v", err, pause))
		if !reported {
			reported = true // once: the log has the rest
			h.Report(Error, fmt.Sprintf("Node %s is not in order after the boot, and is tried again: %v", plan.Node, err))
		}
		if err := wait.Pause(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

type healer struct{ Options }

func (h *healer) done(node string, changed []string) {
	if len(changed) == 0 {
		h.Log("everything is in order")
		h.Report(Info, fmt.Sprintf("Node %s is in order.", node))
		return
	}
	h.Log("everything is in order now; done: " + strings.Join(changed, ", "))
	h.Report(Info, fmt.Sprintf("Node %s is in order again. Done: %s.", node, strings.Join(changed, ", ")))
}

func (h *healer) plan(ctx context.Context) (steps.BootPlan, error) {
	rc, err := h.Host.Open(ctx, h.Path)
	if err != nil {
		return steps.BootPlan{}, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, maxPlan))
	if err != nil {
		return steps.BootPlan{}, fmt.Errorf("read %s: %w", h.Path, err)
	}
	p, err := steps.ReadBoot(b, kinds.Catalog())
	if err != nil {
		return p, fmt.Errorf("%s: %w", h.Path, err)
	}
	return p, nil
}

// attempt checks, and applies what is needed. It returns what it changed.
func (h *healer) attempt(ctx context.Context, plan steps.BootPlan) (changed []string, err error) {
	x := executor.NewExecutor(kinds.Catalog(), h.Host, none{}, func(event.Event) {})
	list, err := x.Standing(ctx, plan.Steps)
	if err != nil {
		return nil, err
	}
	req := executor.Request{Node: plan.Node, Steps: list}
	reply, err := x.Check(ctx, req)
	if err != nil {
		return nil, err
	}
	todo := false
	for _, r := range reply.Results {
		switch {
		case r.Err != nil:
			h.Log(fmt.Sprintf("%s: %v", r.ID, r.Err))
			todo = true
		case !r.Change.NoOp():
			h.Log(strings.TrimSpace(fmt.Sprintf("%s: to %s: %s", r.ID, r.Change.Action, r.Change.Reason)))
			todo = true
		}
	}
	if !todo {
		return nil, nil
	}
	lock := hostlock.New(h.LockDir)
	if err := h.take(ctx, lock, reply.Facts); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	// A new executor reads the record again, now that no other run can change it.
	applied, err := executor.NewExecutor(kinds.Catalog(), h.Host, none{}, h.event).Apply(ctx, req)
	if err != nil {
		return nil, err
	}
	if applied.Err != nil {
		return applied.Changed, fmt.Errorf("%s: %w", applied.Failed, applied.Err)
	}
	return applied.Changed, nil
}

// take takes the lock, however long another run holds it.
func (h *healer) take(ctx context.Context, lock *hostlock.Lock, f host.Facts) error {
	now := time.Now().UTC()
	by := steps.LockHolder{Run: fmt.Sprintf("boot-%s-%d", now.Format("20060102-150405"), os.Getpid()),
		User: "the service of nodejoin", Host: f.Hostname,
		PID: os.Getpid(), Since: now.Truncate(time.Second), Command: steps.BootCommand}
	req := steps.LockRequest{Holder: by}
	for {
		reply, err := lock.Take(ctx, req)
		if err != nil {
			return err
		}
		if reply.Left != nil {
			h.Log("an earlier run did not end: " + reply.Left.String())
		}
		if reply.By == nil {
			return nil
		}
		h.Log("waiting for another run: " + reply.By.String())
		req.Wait = lockLook
	}
}

func (h *healer) event(e event.Event) {
	switch e := e.(type) {
	case event.StepStarted:
		h.Log(strings.TrimRight(fmt.Sprintf("%s: %s %s", e.Step, e.Action, e.Reason), " "))
	case event.StepProgress:
		if e.Note != "" {
			h.Log(e.Step + ": " + e.Note)
		}
	case event.StepDone:
		switch e.Result {
		case "changed":
			h.Log(fmt.Sprintf("%s: done after %v", e.Step, e.Duration.Round(time.Millisecond)))
		case "failed":
			h.Log(fmt.Sprintf("%s: failed: %s: %s", e.Step, e.Summary, e.Detail))
		}
	}
}

// none has no artifacts: the boot part fetches nothing.
type none struct{}

func (none) Open(context.Context, steps.Source) (io.ReadCloser, int64, error) {
	return nil, 0, &fs.PathError{Op: "fetch", Path: "after a boot", Err: host.ErrUnsupported}
}

func (none) Unpack(context.Context, io.Reader, string, string, func(steps.Member, io.Reader) error) error {
	return &fs.PathError{Op: "unpack", Path: "after a boot", Err: host.ErrUnsupported}
}
