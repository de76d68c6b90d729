package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
)

// round checks everything, fixes what is due, and renews tokens whatever became of the steps.
func (g *guard) round(ctx context.Context) error {
	if g.plan.Guard == nil && g.settled {
		g.problems(g.renew(ctx))
		return nil
	}
	wrong, err := g.steps(ctx)
	tokens := g.renew(ctx)
	if err != nil {
		return err
	}
	wrong = append(wrong, tokens...)
	g.calmed(wrong)
	g.problems(append(wrong, g.check(ctx)...))
	return nil
}

// steps checks the steps, fixes what is due, and returns what is wrong then.
func (g *guard) steps(ctx context.Context) ([]steps.GuardProblem, error) {
	g.state.Checks++
	l, err := g.look(ctx)
	if err != nil {
		return nil, err
	}
	if g.paused, err = executor.Paused(ctx, g.Host, g.facts); err != nil {
		return nil, fmt.Errorf("whether the node is paused is not known, and nothing is fixed: %w", err)
	}
	if g.dueOf(l) > 0 && !g.paused.Holds(time.Now()) {
		if l, err = g.fix(ctx, l); err != nil {
			return nil, err
		}
	}
	if l.by != nil {
		return held(l.by), nil
	}
	if len(l.wrong) == 0 && l.lost == "" {
		g.settled, g.closed = true, nil
		if l.known != nil {
			g.state.HNS, g.endpoints = &l.known.HNSSeen, l.known.endpoints
		}
	}
	return l.wrong, nil
}

// look checks the steps.
func (g *guard) look(ctx context.Context) (look, error) {
	if err := g.x.Refresh(ctx); err != nil {
		return look{}, err
	}
	list, err := g.x.Standing(ctx, g.plan.Steps)
	if err != nil {
		return look{}, err
	}
	l := look{list: list, known: g.known(ctx)} // first: what goes meanwhile is missed in the next round
	if _, l.lost = g.hnsLost(ctx); l.lost != "" {
		l.list = g.afterHNS(list, l.lost)
	}
	reply, err := g.x.Check(ctx, executor.Request{Node: g.plan.Node, Steps: l.list})
	if err != nil {
		return look{}, err
	}
	g.judge(&l, reply)
	if g.closedGates(&l, reply) {
		if reply, err = g.x.Check(ctx, executor.Request{Node: g.plan.Node, Steps: l.list}); err != nil {
			return look{}, err
		}
		g.judge(&l, reply)
	}
	return l, nil
}

// judge says which steps are wrong.
func (g *guard) judge(l *look, reply executor.CheckReply) {
	l.wrong = nil
	logged := map[string]string{}
	for _, r := range reply.Results {
		var text string
		switch {
		case r.Err != nil:
			text = r.Err.Error()
		case !r.Change.NoOp():
			text = strings.TrimSpace(fmt.Sprintf("to %s: %s", r.Change.Action, r.Change.Reason))
		default:
			continue
		}
		logged[r.ID] = text
		if g.logged[r.ID] != text {
			g.Log(r.ID + ": " + text)
		}
		l.wrong = append(l.wrong, steps.GuardProblem{ID: r.ID, Text: text, Next: g.due(r.ID)})
	}
	g.logged = logged
}

// longRun is how long another run may hold the machine until that is a problem.
const longRun = time.Hour

// held is what is wrong while another run holds the machine: what differs is its work.
func held(by *steps.LockHolder) []steps.GuardProblem {
	if time.Since(by.Since) < longRun {
		return nil
	}
	return []steps.GuardProblem{{ID: "lock", Text: "another run holds the machine: " + by.String()}}
}

// dueOf counts the steps up to the first one whose next try is still to come: later ones need it.
func (g *guard) dueOf(l look) int {
	for _, p := range l.wrong {
		if p.Next.After(time.Now()) {
			return slices.IndexFunc(l.list, func(s steps.Spec) bool { return s.ID == p.ID })
		}
	}
	if len(l.wrong) == 0 {
		return 0
	}
	return len(l.list)
}

// fix applies the steps that are due, under the lock of the machine, and returns what is wrong then.
func (g *guard) fix(ctx context.Context, l look) (out look, err error) {
	if first := l.list[:g.dueOf(l)]; !slices.ContainsFunc(first, l.has) {
		return l, nil
	}
	lock := hostlock.New(g.LockDir)
	by, err := g.take(ctx, lock)
	if err != nil {
		return l, err
	}
	if by != nil {
		l.by = by
		return l, nil // the next round tries again
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	// Another run may have changed the machine, and the steps, until now.
	if g.plan, err = readPlan(ctx, g.Host, g.Path); err != nil {
		return l, err
	}
	before := g.state.HNS
	hns, asked := g.seeHNS(ctx)
	if l, err = g.look(ctx); err != nil {
		return l, err
	}
	due := l.list[:g.dueOf(l)]
	if !slices.ContainsFunc(due, l.has) {
		return l, nil
	}
	for _, s := range due {
		if l.has(s) {
			g.tried(s.ID)
		}
	}
	reply, err := g.x.Apply(ctx, executor.Request{Node: g.plan.Node, Steps: due})
	if err != nil {
		return l, err
	}
	g.fixed(reply.Changed)
	if reply.Err != nil {
		g.state.Failures++
		g.Log(fmt.Sprintf("%s: %v", reply.Failed, reply.Err))
		return g.remaining(l, due, reply.Failed, reply.Err), nil
	}
	l = g.remaining(l, due, "", nil)
	if before != nil {
		if err := g.endLostPods(ctx, *before); err != nil {
			return l, fmt.Errorf("pods without a network are not ended: %w", err)
		}
	}
	l.lost, l.known = "", g.known(ctx)
	if l.known != nil && asked {
		l.known.PID = hns.PID // a restart since then may have undone what was fixed: the next round finds it
	}
	return l, nil
}

// remaining is what is wrong after an apply of the steps that were due, of which one may have failed.
func (g *guard) remaining(l look, due []steps.Spec, failed string, err error) look {
	l.wrong = slices.DeleteFunc(slices.Clone(l.wrong), func(p steps.GuardProblem) bool {
		return slices.ContainsFunc(due, func(s steps.Spec) bool { return s.ID == p.ID }) && failed == ""
	})
	for i := range l.wrong {
		p := &l.wrong[i]
		p.Next = g.due(p.ID)
		if p.ID == failed {
			p.Text = err.Error()
		}
	}
	if failed != "" && !slices.ContainsFunc(l.wrong, func(p steps.GuardProblem) bool { return p.ID == failed }) {
		g.tried(failed)
		l.wrong = append(l.wrong, steps.GuardProblem{ID: failed, Text: err.Error(), Next: g.due(failed)})
	}
	return l
}

// calmed forgets the tries of steps that have stayed in order.
func (g *guard) calmed(list []steps.GuardProblem) {
	for id, t := range g.state.Tries {
		wrong := slices.ContainsFunc(list, func(p steps.GuardProblem) bool { return p.ID == id })
		if !wrong && time.Since(t.Last) > max(calm, g.pauseAfter(t.Count)) {
			delete(g.state.Tries, id)
		}
	}
}

// check makes the checks that are due, and returns what all of them found last.
func (g *guard) check(ctx context.Context) (out []steps.GuardProblem) {
	if g.plan.Guard == nil {
		return nil
	}
	for _, c := range g.Checks {
		if last, ok := g.ran[c.Name]; !ok || time.Since(last) >= c.Every || g.found[c.Name] != "" {
			text, err := c.Look(ctx, g.Host, g.plan)
			if err != nil {
				text = err.Error()
			}
			if ctx.Err() != nil {
				return out
			}
			if text != "" && text != g.found[c.Name] {
				g.Log(c.Name + ": " + text)
			}
			g.ran[c.Name], g.found[c.Name] = time.Now(), text
		}
		if text := g.found[c.Name]; text != "" {
			out = append(out, steps.GuardProblem{ID: c.Name, Text: text})
		}
	}
	return out
}

// take takes the lock. Another run that holds it is waited for after a boot, and is returned by a Guard, which looks
// again after its interval.
func (g *guard) take(ctx context.Context, lock *hostlock.Lock) (*steps.LockHolder, error) {
	for waits := time.Duration(0); ; waits = lockLook {
		by, err := g.tryLock(ctx, lock, waits)
		if err != nil || by == nil || g.plan.Guard != nil {
			return by, err
		}
	}
}

func (g *guard) event(e event.Event) {
	switch e := e.(type) {
	case event.StepStarted:
		g.Log(strings.TrimRight(fmt.Sprintf("%s: %s %s", e.Step, e.Action, e.Reason), " "))
	case event.StepProgress:
		if e.Note != "" {
			g.Log(e.Step + ": " + e.Note)
		}
	case event.StepDone:
		switch e.Result {
		case "changed":
			g.Log(fmt.Sprintf("%s: done after %v", e.Step, e.Duration.Round(time.Millisecond)))
		case "failed":
			g.Log(fmt.Sprintf("%s: failed: %s: %s", e.Step, e.Summary, e.Detail))
		}
	}
}

// none has no artifacts: the steps of the service fetch nothing.
type none struct{}

func (none) Open(context.Context, steps.Source) (io.ReadCloser, int64, error) {
	return nil, 0, &fs.PathError{Op: "fetch", Path: "in the service of the node", Err: host.ErrUnsupported}
}

func (none) Unpack(context.Context, io.Reader, string, string, func(steps.Member, io.Reader) error) error {
	return &fs.PathError{Op: "unpack", Path: "in the service of the node", Err: host.ErrUnsupported}
}
