package node

import (
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
)

// gateGrace is how long a gate may be closed while its service runs, until that is restarted: a service that has just
// started opens its gate later.
const (
	gateGrace = 30 * time.Second
	gateLook  = 15 * time.Second
)

// closedGates handles a node of which nothing but gates is not in order: the services behind those that stay closed
// are restarted, which the list says then. Until that a closed gate is looked at again soon.
func (g *guard) closedGates(l *look, reply executor.CheckReply) (restart bool) {
	if g.plan.Guard == nil || !g.settled {
		return false // after a boot the apply waits for the gates
	}
	now, closed := time.Now(), map[string]time.Time{}
	for i := range l.wrong {
		p := &l.wrong[i]
		gate, service := g.gateOf(l.list, p.ID, reply)
		if gate == "" {
			g.closed = nil
			return false // the services come first
		}
		since, was := g.closed[p.ID]
		if !was {
			since = now
		}
		closed[p.ID] = since
		if service < 0 || now.Sub(since) < gateGrace {
			if next := now.Add(gateLook); p.Next.Before(next) {
				p.Next = next
			}
			continue
		}
		s, _ := kinds.As[kinds.Service](l.list[service])
		s.RestartIf = "it runs, but " + p.ID + " finds it does not work"
		l.list = slices.Clone(l.list)
		l.list[service].Args = steps.MustArgs(s)
		restart = true
		break // later gates need this one
	}
	g.closed = closed
	return restart
}

// gateOf is the service of a step that is a closed gate, "" = the step is none, with the index of the step that could
// restart it, -1 = there is none.
func (g *guard) gateOf(list []steps.Spec, id string, reply executor.CheckReply) (service string, step int) {
	i := slices.IndexFunc(list, func(s steps.Spec) bool { return s.ID == id })
	if i < 0 {
		return "", -1
	}
	r := slices.IndexFunc(reply.Results, func(r steps.Result) bool { return r.ID == id })
	v, kind, err := kinds.Catalog().Decode(list[i])
	if err != nil || kind.Gate == nil || reply.Results[r].Err != nil ||
		reply.Results[r].Change.Action != steps.ActionWait {
		return "", -1
	}
	service = kind.Gate(v)
	return service, slices.IndexFunc(list, func(s steps.Spec) bool {
		c, ok := kinds.As[kinds.Service](s)
		return ok && c.Name == service
	})
}
