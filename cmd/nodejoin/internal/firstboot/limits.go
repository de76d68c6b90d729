package firstboot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/cluster"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

// The API server takes a policy into account once its informers have it, in about a second.
const (
	limitsIn    = time.Minute
	limitsEvery = time.Second
)

// limit makes the objects of kube.FirstBootLimits where the node needs tokens.
func limit(ctx context.Context, api kube.API, wanted []kube.TokenRequest) error {
	if len(wanted) == 0 {
		return nil
	}
	for _, m := range kube.FirstBootLimits() {
		err := api.ApplyManifest(ctx, m)
		if errors.Is(err, kube.ErrNotServed) {
			return unlimited("it does not serve ValidatingAdmissionPolicy")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// proveLimits writes no user data whose account could get tokens of other Nodes: it asks the API server with that
// account. Where the limits are not in force, the account's access ends.
func (f *File) proveLimits(ctx context.Context, api kube.API, c *plan.Cluster, wanted []kube.TokenRequest) error {
	if len(wanted) == 0 {
		return nil
	}
	own, err := cluster.Open(ctx, cluster.Config{Kubeconfig: c.Kubeconfig, CAHash: c.CAHash, Token: f.Account})
	if err == nil {
		err = awaitLimits(ctx, own, wanted[0], limitsIn)
		own.Close()
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, api.RevokeToken(context.WithoutCancel(ctx), f.bootstrap().ID))
}

// awaitLimits waits until the API server refuses the account of a first boot a token that is not bound to its Node.
func awaitLimits(ctx context.Context, own kube.API, of kube.TokenRequest, within time.Duration) error {
	late := unlimited(fmt.Sprintf("%s after the policy was made, it does not refuse a token of %s/%s that is not bound "+
		"to the Node", within, of.Namespace, of.Name))
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	return wait.Until(ctx, limitsEvery, func() (bool, error) { return kube.FirstBootLimited(ctx, own, of) })
}

// unlimited is the error of an API server that does not limit the accounts of first boots.
func unlimited(why string) error {
	return &steps.Error{Code: steps.CodeInvalid, Summary: "the API server does not limit first boots to their own Nodes",
		Detail: why + "; user data that somebody else reads would be good for the rights of other nodes",
		Remedy: "turn its admission plugin ValidatingAdmissionPolicy on, or join this node with 'nodejoin apply'"}
}

// outlives is the error of a token that is bound to no Node.
func outlives(node string, t *kinds.ServiceAccountToken) error {
	return &steps.Error{Code: steps.CodeInvalid, Summary: "a token that outlives its Node",
		Detail: fmt.Sprintf("%s gets a token of %s/%s with unbound = true, and a first boot requests only tokens that "+
			"are bound to its own Node", node, t.Namespace, t.Name),
		Remedy: "remove unbound, or join this node with 'nodejoin apply'"}
}
