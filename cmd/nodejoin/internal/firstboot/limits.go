package firstboot

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
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
func (f *File) proveLimits(ctx context.Context, api kube.API, info kube.Info, wanted []kube.TokenRequest) error {
	if len(wanted) == 0 {
		return nil
	}
	err := f.awaitLimits(ctx, info, wanted[0])
	if err == nil {
		return nil
	}
	return errors.Join(err, api.RevokeToken(context.WithoutCancel(ctx), f.bootstrap().ID))
}

func (f *File) awaitLimits(ctx context.Context, info kube.Info, of kube.TokenRequest) (err error) {
	dir, err := os.MkdirTemp("", "nodejoin-user-data-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at := filepath.Join(dir, "kubeconfig")
	if err := writeKubeconfig(at, info.Server, info.CA, f.Account); err != nil {
		return err
	}
	own, err := cluster.Open(ctx, cluster.Config{Kubeconfig: at})
	if err != nil {
		return err
	}
	defer own.Close()
	late := unlimited(fmt.Sprintf("%s after the policy was made, it does not refuse a token of %s/%s that is not bound "+
		"to the Node", limitsIn, of.Namespace, of.Name))
	ctx, cancel := context.WithTimeoutCause(ctx, limitsIn, late)
	defer cancel()
	return wait.Until(ctx, limitsEvery, func() (bool, error) { return kube.FirstBootLimited(ctx, own, of) })
}

// writeKubeconfig writes a kubeconfig of a token.
func writeKubeconfig(at, server, ca, token string) error {
	type named = map[string]any
	b, err := json.Marshal(named{"apiVersion": "v1", "kind": "Config", "current-context": "first-boot",
		"clusters": []named{{"name": "cluster", "cluster": named{"server": server,
			"certificate-authority-data": base64.StdEncoding.EncodeToString([]byte(ca))}}},
		"users":    []named{{"name": "machine", "user": named{"token": token}}},
		"contexts": []named{{"name": "first-boot", "context": named{"cluster": "cluster", "user": "machine"}}}})
	if err != nil {
		return err
	}
	return atomicfile.Write(at, b, 0o600)
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
