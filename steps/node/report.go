package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/nodeapi"
)

// Reasons of conditions and events.
const (
	reasonRight  = "InOrder"
	reasonWrong  = "NotInOrder"
	reasonFixed  = "Fixed"
	reasonPaused = "Paused"
)

const (
	// heartbeat is how often a condition that stays as it is is sent again, as often as the kubelet does
	// (nodeStatusReportFrequency).
	heartbeat = 5 * time.Minute
	// maxEvents bounds the events that wait for an API server that does not answer; the oldest go.
	maxEvents = 16
	// maxMessage bounds a message, in bytes: that of an event (k8s.io/kubernetes/pkg/apis/core/validation/events.go,
	// NoteLengthLimit).
	maxMessage = 1024
)

// report writes to the machine's event log, and an event of the Node.
func (g *guard) report(l Level, reason, text string) {
	g.Report(l, text)
	if g.Reporter == nil || g.plan.Guard == nil || g.plan.Guard.Account == "" {
		return
	}
	e := nodeapi.Event{Warning: l == Error, Reason: reason, Message: cutText(text), At: time.Now()}
	g.cluster.events = append(g.cluster.events, e)
	if more := len(g.cluster.events) - maxEvents; more > 0 {
		g.cluster.events = slices.Delete(g.cluster.events, 0, more)
	}
}

// tellCluster sends the condition of the Node, where it has changed or is due, and the events that wait. What cannot
// be sent is sent after the next round.
func (g *guard) tellCluster(ctx context.Context) {
	if g.Reporter == nil || g.plan.Guard == nil || g.plan.Guard.Account == "" || ctx.Err() != nil {
		return
	}
	err := g.send(ctx)
	if err == nil {
		g.cluster.failed = ""
	} else if text := err.Error(); text != g.cluster.failed && ctx.Err() == nil {
		g.cluster.failed = text
		g.Log("the cluster is not told: " + text)
	}
}

func (g *guard) send(ctx context.Context) error {
	r, now := &g.cluster, g.condition()
	due := r.at.IsZero() || now != r.sent || time.Since(r.at) >= heartbeat
	if !due && len(r.events) == 0 {
		return nil
	}
	at, err := g.access(ctx)
	if err != nil {
		return err
	}
	if due {
		if err := g.Reporter.SetCondition(ctx, at, g.plan.Node, now); err != nil {
			return err
		}
		r.sent, r.at = now, time.Now()
	}
	for len(r.events) > 0 {
		err := g.Reporter.AddEvent(ctx, at, g.plan.Node, r.events[0])
		if err == nil || refused(err) { // it would be refused again
			r.events = slices.Delete(r.events, 0, 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refused reports whether the API server refuses what it was asked, and not only now.
func refused(err error) bool {
	s, ok := errors.AsType[*nodeapi.StatusError](err)
	return ok && s.Code/100 == 4 && s.Code != http.StatusUnauthorized && s.Code != http.StatusTooManyRequests
}

// access is the node's own token, and where it is valid.
func (g *guard) access(ctx context.Context) (steps.TokenRenewal, error) {
	id := g.plan.Guard.Account
	i := slices.IndexFunc(g.plan.Tokens, func(s steps.Spec) bool { return s.ID == id })
	if i < 0 {
		return steps.TokenRenewal{}, fmt.Errorf("the node has no step %s", id)
	}
	file, ok := kinds.As[kinds.TokenFile](g.plan.Tokens[i])
	if !ok {
		return steps.TokenRenewal{}, fmt.Errorf("step %s is not a token file", id)
	}
	return file.Access(ctx, g.Host)
}

// condition is the state as a condition of the Node.
func (g *guard) condition() nodeapi.Condition {
	c := nodeapi.Condition{Healthy: len(g.state.Problems) == 0, Reason: reasonRight, Since: g.state.Since,
		Message: "nodejoin-node finds the node in order"}
	if !c.Healthy {
		var texts []string
		for _, p := range g.state.Problems {
			texts = append(texts, p.String())
		}
		c.Reason, c.Message = reasonWrong, strings.Join(texts, "; ")
	}
	if g.paused.Holds(time.Now()) {
		c.Reason, c.Message = reasonPaused, "paused "+g.paused.String()+"; "+c.Message
	}
	c.Message = cutText(c.Message)
	return c
}

// cutText is the beginning of a text that is too long for a message.
func cutText(text string) string {
	const more = " ..."
	if len(text) <= maxMessage {
		return text
	}
	text = text[:maxMessage-len(more)]
	for !utf8.ValidString(text) && len(text) > 0 {
		text = text[:len(text)-1]
	}
	return text + more
}
