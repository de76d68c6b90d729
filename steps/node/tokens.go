package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/hostlock"
)

// tokenLook is how often tokens are checked where the service has nothing else to do.
const tokenLook = time.Minute

// renew renews the tokens of the node that are in the last third of their lives, each by itself, and returns those
// that are not in order. It does so also while the guard is paused: a node without tokens loses its network.
func (g *guard) renew(ctx context.Context) []steps.GuardProblem {
	if len(g.plan.Tokens) == 0 {
		return nil
	}
	wrong, err := g.wrongTokens(ctx)
	if err == nil && slices.ContainsFunc(wrong, due) {
		wrong, err = g.renewDue(ctx, wrong)
	}
	if err != nil && ctx.Err() == nil {
		wrong = append(wrong, steps.GuardProblem{ID: "tokens", Text: err.Error()})
	}
	return wrong
}

// wrongTokens returns the tokens that are not in order.
func (g *guard) wrongTokens(ctx context.Context) (out []steps.GuardProblem, err error) {
	if err := g.x.Refresh(ctx); err != nil {
		return nil, err
	}
	reply, err := g.x.Check(ctx, executor.Request{Node: g.plan.Node, Steps: g.plan.Tokens})
	if err != nil {
		return nil, err
	}
	for _, r := range reply.Results {
		switch {
		case r.Err != nil:
			out = append(out, steps.GuardProblem{ID: r.ID, Text: r.Err.Error(), Next: g.due(r.ID)})
		case !r.Change.NoOp():
			text := cmp.Or(strings.TrimSpace(r.Change.Reason), "to "+string(r.Change.Action))
			if why := g.unrenewed[r.ID]; why != "" {
				text += "; " + why
			}
			out = append(out, steps.GuardProblem{ID: r.ID, Text: text, Next: g.due(r.ID)})
		default:
			delete(g.unrenewed, r.ID)
		}
	}
	return out, nil
}

// due reports whether a problem may be dealt with now.
func due(p steps.GuardProblem) bool { return !p.Next.After(time.Now()) }

// renewDue renews the tokens that are due, under the lock, and returns those that are not in order then. While another
// run holds the lock, the next round tries again.
func (g *guard) renewDue(ctx context.Context, wrong []steps.GuardProblem) (out []steps.GuardProblem, err error) {
	lock := hostlock.New(g.LockDir)
	by, err := g.tryLock(ctx, lock, 0)
	if err != nil || by != nil {
		return wrong, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	// Another run may have renewed them, or changed the steps, until now.
	if g.plan, err = readPlan(ctx, g.Host, g.Path); err != nil {
		return wrong, err
	}
	if wrong, err = g.wrongTokens(ctx); err != nil {
		return wrong, err
	}
	for _, p := range wrong {
		if due(p) {
			p, err = g.renewOne(ctx, p)
		}
		if p.ID != "" {
			out = append(out, p)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// renewOne applies the step of a token, and returns what is wrong with it then; none if it is in order.
func (g *guard) renewOne(ctx context.Context, p steps.GuardProblem) (steps.GuardProblem, error) {
	i := slices.IndexFunc(g.plan.Tokens, func(s steps.Spec) bool { return s.ID == p.ID })
	g.tried(p.ID)
	reply, err := g.x.Apply(ctx, executor.Request{Node: g.plan.Node, Steps: g.plan.Tokens[i : i+1]})
	if err != nil {
		return p, err
	}
	if failed := reply.Err; failed != nil {
		g.state.Failures++
		p.Text, p.Next = failure(failed), g.due(p.ID)
		g.unrenewed[p.ID] = p.Text
		return p, nil
	}
	g.state.Renewals++
	delete(g.state.Tries, p.ID)
	return steps.GuardProblem{}, nil
}

// failure is a step's error with its detail and remedy.
func failure(err *steps.Error) string {
	text := err.Error()
	if err.Remedy != "" && !strings.Contains(text, err.Remedy) {
		text = fmt.Sprintf("%s; %s", text, err.Remedy)
	}
	return text
}
