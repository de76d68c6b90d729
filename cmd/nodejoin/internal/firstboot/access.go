package firstboot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// Lives of the access. A token of a ServiceAccount lives for 10 minutes at least
// (kubernetes pkg/apis/authentication/validation).
const (
	shortest   = 10 * time.Minute
	longest    = 24 * time.Hour
	defaultTTL = time.Hour
)

// bindsToNodes is the first version that binds tokens to Nodes. Before it, nodejoin makes a Secret for that, and who
// may create Secrets there could make itself a token of any account.
var bindsToNodes = semver.MustParse("1.31.0-0")

// give gives a node access to the cluster, and fills it in. Earlier access of the node ends.
func (f *File) give(ctx context.Context, api kube.API, p *plan.Compiled, n plan.Node, ttl time.Duration) error {
	wanted, err := ready(ctx, api, n)
	if err != nil {
		return err
	}
	info, err := api.Info(ctx)
	if err != nil {
		return err
	}
	if v, err := semver.NewVersion(info.Version); err == nil && v.LessThan(bindsToNodes) && len(wanted) > 0 {
		return &steps.Error{Code: steps.CodeInvalid, Summary: "the API server is too old for a first boot",
			Detail: fmt.Sprintf("it is %s, which does not bind tokens to Nodes (1.31 and newer do); a machine that makes "+
				"tokens for its programs itself would need rights that are too wide for user data", info.Version),
			Remedy: "join this node with 'nodejoin apply'"}
	}
	if err := limit(ctx, api, wanted); err != nil { // before the account has rights
		return err
	}
	earlier, err := api.BootstrapTokens(ctx, n.Name)
	if err != nil {
		return err
	}
	for _, t := range earlier {
		if err := api.RevokeToken(ctx, t.ID); err != nil {
			return err
		}
	}
	token, err := api.MintCertificate(ctx, n.Name, ttl)
	if err != nil {
		return err
	}
	account := kube.FirstBoot(n.Name)
	account.Rules = rules(n.Name, token.ID, wanted)
	if err := api.EnsureServiceAccount(ctx, account); err != nil {
		return err
	}
	f.Account, f.Expires, err = api.ServiceAccountToken(ctx, kube.TokenRequest{Namespace: account.Namespace,
		Name: account.Name, TTL: ttl, Secret: "bootstrap-token-" + token.ID})
	if err != nil {
		return err
	}
	if token.Expires.Before(f.Expires) {
		f.Expires = token.Expires
	}
	f.Token = token.Text()
	if p.Cluster.Sandbox == "" {
		f.Server, f.CA = p.Cluster.APIServer, info.CA
		return f.proveLimits(ctx, api, p.Cluster, wanted)
	}
	return nil
}

// rules are the rights of a first boot: its own Node, and tokens of the accounts of its programs. That such a token is
// bound to its own Node is for kube.FirstBootLimits.
func rules(node, tokenID string, wanted []kube.TokenRequest) []kube.Rule {
	var accounts []string
	for _, t := range wanted {
		accounts = append(accounts, t.Name)
	}
	slices.Sort(accounts)
	accounts = slices.Compact(accounts)
	out := []kube.Rule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, ResourceNames: []string{node}, Verbs: []string{"patch"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"},
			Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"bootstrap-token-" + tokenID},
			Verbs: []string{"delete"}},
	}
	if len(accounts) == 0 {
		return out
	}
	read := slices.Clone(accounts)
	for _, a := range accounts {
		read = append(read, kube.AccountOf(a, node))
	}
	return append(out,
		kube.Rule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: read,
			Verbs: []string{"get"}},
		kube.Rule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: accounts,
			Verbs: []string{"create"}})
}

// ready makes the accounts that the node shares with others, and refuses to go on without the objects of the plan: a
// first boot makes neither. It returns of which accounts the node needs tokens.
func ready(ctx context.Context, api kube.API, n plan.Node) (wanted []kube.TokenRequest, err error) {
	for _, s := range n.Steps {
		if t, ok := kinds.As[kinds.ServiceAccountToken](s); ok {
			if t.Unbound {
				return nil, outlives(n.Name, t)
			}
			wanted = append(wanted, kube.TokenRequest{Namespace: t.Namespace, Name: t.Name, Node: n.Name})
		}
		if a, ok := kinds.As[kinds.ServiceAccount](s); ok {
			err = api.EnsureServiceAccount(ctx, a.Account())
		}
		if m, ok := kinds.As[kinds.Manifest](s); ok {
			err = present(ctx, api, *m)
		}
		if err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

// present is an error if an object of a manifest is absent.
func present(ctx context.Context, api kube.API, m kinds.Manifest) error {
	list, err := m.Objects()
	if err != nil {
		return err
	}
	for _, o := range list {
		have, err := api.Manifest(ctx, o)
		if err != nil {
			return err
		}
		if !have.Exists {
			return &steps.Error{Code: steps.CodeInvalid, Summary: "an object of the plan is not in the cluster",
				Detail: "there is no " + o.String() + ", and a machine that joins at its first boot does not make it",
				Remedy: "apply the plan once to another of its nodes with 'nodejoin apply'"}
		}
	}
	return nil
}
