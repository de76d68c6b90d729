package node

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// hnsService is the service of the Host Networking Service. It restarts with updates of Windows or after a crash, and
// has lost the networks and policies of programs then.
const hnsService = "hns"

// seeHNS reads what HNS is known by. ok is false where that cannot be asked now.
func (g *guard) seeHNS(ctx context.Context) (now steps.HNSSeen, ok bool) {
	if g.plan.Guard == nil || g.plan.Guard.Network == "" {
		return now, false
	}
	svc, err := g.Host.Service(ctx, hnsService)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return now, false
	}
	now.PID = svc.PID
	network, err := g.Host.HNSNetwork(ctx, g.plan.Guard.Network)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return now, false
	}
	now.Network = network.ID
	if s := g.restarts(); s != nil {
		if svc, err = g.Host.Service(ctx, s.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return now, false
		}
		now.Service = svc.PID
	}
	return now, true
}

// known reads what HNS and its network are known by. nil = that cannot be asked now, or the network is not there.
func (g *guard) known(ctx context.Context) *known {
	now, ok := g.seeHNS(ctx)
	if !ok || now.Network == "" {
		return nil
	}
	list, err := g.endpointsOf(ctx, now.Network)
	if err != nil {
		return nil
	}
	return &known{now, list}
}

// restarts is the step of Guard.Restart; nil = there is none.
func (g *guard) restarts() *kinds.Service {
	i := slices.IndexFunc(g.plan.Steps, func(s steps.Spec) bool { return s.ID == g.plan.Guard.Restart })
	if i < 0 {
		return nil
	}
	s, _ := kinds.As[kinds.Service](g.plan.Steps[i])
	return s
}

// hnsLost says what shows that HNS has lost its state since all was in order; "" = nothing does. The programs that use
// HNS do not notice that.
func (g *guard) hnsLost(ctx context.Context) (now steps.HNSSeen, why string) {
	now, ok := g.seeHNS(ctx)
	seen := g.state.HNS
	switch {
	case !ok || seen == nil:
	case now.Service != seen.Service: // it was restarted since, or is about to be started
	case now.PID != 0 && seen.PID != 0 && now.PID != seen.PID:
		why = "the Host Networking Service has restarted"
	case seen.Network != "" && now.Network != seen.Network:
		why = "its HNS network is another one"
	case g.lostEndpoints(ctx, now.Network):
		why = "the Host Networking Service has lost the endpoints of pods"
	}
	return now, why
}

// lostEndpoints reports whether all endpoints in the network are gone, and pods still run that had one: a runtime
// stops a pod before it removes its endpoint. A restart of HNS shows in nothing else where other services run in its
// process, as on machines with little memory: the process stays, and so may the network.
func (g *guard) lostEndpoints(ctx context.Context, network string) bool {
	if len(g.endpoints) == 0 || g.plan.Guard.CRI == "" {
		return false
	}
	have, err := g.endpointsOf(ctx, network)
	if err != nil || slices.ContainsFunc(g.endpoints, func(e host.HNSEndpoint) bool { return contains(have, e) }) {
		return false
	}
	pods, err := g.Host.Pods(ctx, g.plan.Guard.CRI)
	return err == nil && slices.ContainsFunc(pods, func(p host.Pod) bool {
		return !p.Ended && slices.ContainsFunc(g.endpoints, func(e host.HNSEndpoint) bool {
			return strings.Contains(e.Name, p.ID) // microsoft/windows-container-networking, cni and hns of the plugins
		})
	})
}

func contains(list []host.HNSEndpoint, e host.HNSEndpoint) bool {
	return slices.ContainsFunc(list, func(other host.HNSEndpoint) bool { return other.ID == e.ID })
}

// afterHNS is the list with the order to restart the service that uses HNS, where that has lost its state.
func (g *guard) afterHNS(list []steps.Spec, why string) []steps.Spec {
	service := g.restarts()
	if service == nil {
		return list
	}
	i := slices.IndexFunc(list, func(s steps.Spec) bool { return s.ID == g.plan.Guard.Restart })
	if i < 0 {
		return list
	}
	service.RestartIf = why
	list = slices.Clone(list)
	list[i].Args = steps.MustArgs(service)
	return list
}

// endpointsOf are the endpoints that programs of this machine have in a network.
func (g *guard) endpointsOf(ctx context.Context, network string) ([]host.HNSEndpoint, error) {
	all, err := g.Host.HNSEndpoints(ctx)
	return slices.DeleteFunc(all, func(e host.HNSEndpoint) bool {
		return e.Remote || network == "" || !strings.EqualFold(e.Network, network)
	}), err
}

// endLostPods ends the pods whose endpoints went with the network, or with HNS as it was before: a restart of it can
// keep the network and lose all endpoints (projectcalico/calico#5164).
func (g *guard) endLostPods(ctx context.Context, before steps.HNSSeen) error {
	now, ok := g.seeHNS(ctx)
	if !ok || before.Network == "" || now.Network == "" {
		return nil
	}
	if now.Network == before.Network && !g.lostEndpoints(ctx, now.Network) {
		if now.PID == before.PID || len(g.endpoints) == 0 {
			return nil
		}
		have, err := g.endpointsOf(ctx, now.Network)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(g.endpoints, func(e host.HNSEndpoint) bool { return contains(have, e) }) {
			return nil // it has kept them
		}
	}
	n, err := g.endPods(ctx)
	if n > 0 {
		g.fixed([]string{"pods"})
	}
	return err
}

// endPods ends all pods of the machine: their endpoints are gone. The kubelet starts them again with others.
func (g *guard) endPods(ctx context.Context) (int, error) {
	cri := g.plan.Guard.CRI
	if cri == "" {
		return 0, nil
	}
	pods, err := g.Host.Pods(ctx, cri)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrUnsupported) {
		return 0, nil
	}
	for i, p := range pods {
		g.Log("ending pod " + p.String() + ", whose network is gone")
		if err := g.Host.RemovePod(ctx, cri, p.ID); err != nil {
			return i, err
		}
	}
	return len(pods), err
}
