package firstboot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// guest is the cluster as a first boot sees it: it has one certificate in place of bootstrap tokens, which was made
// with the user data, and asks for nothing that it has no right to.
type guest struct {
	kube.API
	own   string // its Node
	token kube.BootstrapToken
	spent bool // the run is done with it
}

var _ kube.API = (*guest)(nil)

// MintToken is the certificate of the user data.
func (g *guest) MintToken(context.Context, string, time.Duration) (kube.BootstrapToken, error) {
	if time.Now().After(g.token.Expires) {
		return kube.BootstrapToken{}, expired(g.own, g.token.Expires)
	}
	return g.token, nil
}

// BootstrapTokens has that until the run is done with it.
func (g *guest) BootstrapTokens(context.Context, string) ([]kube.BootstrapToken, error) {
	if g.spent {
		return nil, nil
	}
	return []kube.BootstrapToken{g.token}, nil
}

// RevokeToken leaves it until the end of the first boot: the access of the run ends with it.
func (g *guest) RevokeToken(context.Context, string) error {
	g.spent = true
	return nil
}

// end ends the access to the cluster.
func (g *guest) end(ctx context.Context) error { return g.API.RevokeToken(ctx, g.token.ID) }

// Nodes has none: which others are out of service does not keep a new one from joining.
func (g *guest) Nodes(context.Context) ([]kube.Node, error) { return nil, nil }

// OutOfService has none, either.
func (g *guest) OutOfService(context.Context) ([]kube.Node, error) { return nil, nil }

// Pods has none: a new Node serves none.
func (g *guest) Pods(context.Context, string) ([]kube.Pod, error) { return nil, nil }

// TakeLease takes none: a machine that joins by itself does not wait for runs of a controller. Its own lock keeps
// other runs off it.
func (g *guest) TakeLease(context.Context, kube.Lease, string) (kube.Lease, error) {
	return kube.Lease{}, nil
}

// Leases has none.
func (g *guest) Leases(context.Context, string) ([]kube.Lease, error) { return nil, nil }

// ReleaseLease has nothing to release.
func (g *guest) ReleaseLease(context.Context, string, string) error { return nil }

// expired is the error of access that has ended.
func expired(node string, at time.Time) error {
	return &steps.Error{Code: steps.CodeFailed, Summary: "the access to the cluster has ended",
		Detail: fmt.Sprintf("the certificate and the token in the user data of %s ended at %s", node,
			at.UTC().Format(time.RFC3339)),
		Remedy: "write the user data again with 'nodejoin user-data', and start the machine with that"}
}

// Own leaves of a plan what a machine does of it by itself: the node, on this machine, without what the controller has
// done (accounts and objects of the cluster) or does later (the approval of serving certificates, which make others
// trust the machine).
func Own(p *plan.Compiled, node string) {
	p.Nodes = slices.DeleteFunc(p.Nodes, func(n plan.Node) bool { return n.Name != node })
	for i, n := range p.Nodes {
		if n.Connection.Type != "sandbox" {
			p.Nodes[i].Connection = plan.Connection{Type: "local", Source: n.Connection.Source}
		}
		p.Nodes[i].Steps, _ = own(n.Steps)
		p.Nodes[i].Partial = true
	}
	p.Moved = nil
}

// own divides the steps of a node into those of a first boot and those that it leaves to the next apply of a
// controller. Those that nodes share are in neither.
func own(list []steps.Spec) (mine, later []steps.Spec) {
	gone := func(of []steps.Spec) func(id string) bool {
		return func(id string) bool {
			return slices.ContainsFunc(of, func(s steps.Spec) bool { return s.ID == id })
		}
	}
	var shared []steps.Spec
	for _, s := range list {
		k := kinds.Of(s)
		_, file := kinds.As[kinds.FileReady](s)
		switch {
		case k.Trusts, file && slices.ContainsFunc(s.After, gone(later)): // a file waits for the approval
			later = append(later, s)
		case k.Place == steps.OnCluster && k.Shared:
			shared = append(shared, s)
		default:
			mine = append(mine, s)
		}
	}
	for i, s := range mine {
		mine[i].After = slices.DeleteFunc(slices.Clone(s.After), gone(slices.Concat(later, shared)))
	}
	return mine, later
}
