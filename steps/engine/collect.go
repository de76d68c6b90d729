package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/collect"
	"nodejoin/steps/transport/wire"
)

// Collected is what a bug report needs of one host.
type Collected struct {
	Node  plan.Node
	Check HostReport // Err says what of it is missing
	Parts []collect.Part
	Err   error // the host could not be asked
}

// Collect asks hosts and cluster for what a bug report needs; nothing is changed. Check
// must have run. Where the cluster does not answer, only the host's side is checked.
func (s *Session) Collect(ctx context.Context) []Collected {
	out := make([]Collected, len(s.hosts))
	index := s.index()
	s.each(ctx, func(ctx context.Context, h *hostRun) { out[index[h]] = collecting{h}.run(ctx) },
		func(h *hostRun, err error) { out[index[h]] = Collected{Node: h.node, Check: h.report, Err: err} })
	return out
}

// collecting reads what a bug report needs of one host.
type collecting struct{ *hostRun }

func (h collecting) run(ctx context.Context) Collected {
	g := Collected{Node: h.node, Check: h.report}
	reply, err := ask(ctx, h.hostRun, "checking", wire.Collect,
		collect.CollectRequest{Node: h.node.Name, Steps: h.node.Steps})
	g.Parts, g.Err = reply.Parts, err
	if err == nil && g.Check.Err != nil {
		g.Check.Facts = reply.Facts
		if check, err := do(ctx, h.hostRun, wire.Check, h.request(h.specs(steps.OnHost)), nil); err == nil {
			results := map[string]steps.Result{}
			for _, r := range check.Results {
				results[r.ID] = r
			}
			for _, spec := range h.specs(steps.OnHost) {
				g.Check.Steps = append(g.Check.Steps, StepReport{Spec: spec, Place: steps.OnHost, Result: results[spec.ID]})
			}
		}
	}
	g.Parts = append(g.Parts, h.cluster(ctx)...)
	if err != nil {
		h.state("failed", "")
	} else {
		h.state("done", "")
	}
	return g
}

// cluster reads the Node, its pods and its events, each by itself.
func (h collecting) cluster(ctx context.Context) (out []collect.Part) {
	if h.plan.Cluster == nil {
		return nil
	}
	part := func(name string, ask func() (any, error)) {
		p := collect.Part{Name: "cluster/" + name}
		v, err := any(nil), cmp.Or(h.open(ctx), h.infoErr)
		if err == nil {
			v, err = ask()
		}
		var b []byte
		if err == nil {
			b, err = json.MarshalIndent(v, "", "  ")
		}
		if err != nil {
			p.Missing = errors.Join(err).Error()
		}
		p.Text = steps.Redact(string(b), nil)
		out = append(out, p)
	}
	part("info.json", func() (any, error) { return h.api.Info(ctx) })
	part("node.json", func() (any, error) { return h.api.Node(ctx, h.node.Name) })
	part("events.json", func() (any, error) { return h.api.NodeEvents(ctx, h.node.Name) })
	part("pods.json", func() (any, error) { return h.api.Pods(ctx, h.node.Name) })
	part("signing_requests.json", func() (any, error) { return h.api.SigningRequests(ctx, h.node.Name) })
	return out
}
