package firstboot

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

// old is a cluster of an older version.
type old struct{ kube.API }

func (old) Info(context.Context) (kube.Info, error) { return kube.Info{Version: "v1.30.9"}, nil }

// unserved is a cluster without ValidatingAdmissionPolicy.
type unserved struct{ kube.API }

func (unserved) ApplyManifest(_ context.Context, m kube.Manifest) error {
	return fmt.Errorf("%w: %s of %s", kube.ErrNotServed, m.Kind, m.APIVersion)
}

// TestAccessRefused: what a first boot cannot do with narrow rights is refused before anything is made.
func TestAccessRefused(t *testing.T) {
	c, err := sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: t.TempDir(), Version: "v1.36.3"})
	if err != nil {
		t.Fatal(err)
	}
	spec := func(kind string, args any) plan.Node {
		return plan.Node{Name: "n", Steps: []steps.Spec{{ID: "s", Kind: kind, Args: steps.MustArgs(args)}}}
	}
	for want, x := range map[string]struct {
		api  kube.API
		node plan.Node
	}{
		"the API server is too old for a first boot": {old{c}, spec("service_account_token",
			&kinds.ServiceAccountToken{Namespace: "a", Name: "a"})},
		"the API server does not limit first boots to their own Nodes": {unserved{c}, spec("service_account_token",
			&kinds.ServiceAccountToken{Namespace: "a", Name: "a"})},
		"a token that outlives its Node": {c, spec("service_account_token",
			&kinds.ServiceAccountToken{Namespace: "a", Name: "a", Unbound: true})},
		"there is no ConfigMap a": {c, spec("manifest", json.RawMessage(
			`{"content": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"}`))},
	} {
		var f File
		err := f.give(t.Context(), x.api, &plan.Compiled{Cluster: &plan.Cluster{Sandbox: "x"}}, x.node, time.Hour)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if have, err := c.BootstrapTokens(t.Context(), "n"); err != nil || len(have) != 0 || f.Token != "" {
			t.Errorf("it has made %+v, %v", have, err)
		}
	}
}

// TestAccessLimited: the accounts of first boots are limited to their own Nodes before one of them has rights, where
// their nodes need tokens.
func TestAccessLimited(t *testing.T) {
	c, err := sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: t.TempDir(), Version: "v1.36.3"})
	if err != nil {
		t.Fatal(err)
	}
	give := func(list ...steps.Spec) {
		t.Helper()
		var f File
		err := f.give(t.Context(), inOrder{c, t}, &plan.Compiled{Cluster: &plan.Cluster{Sandbox: "x"}},
			plan.Node{Name: "n", Steps: list}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
	}
	wantLimits := func(want bool) {
		t.Helper()
		for _, m := range kube.FirstBootLimits() {
			if have, err := c.Manifest(t.Context(), m); err != nil || have.Exists != want {
				t.Errorf("%s: %+v, %v, want it there: %v", m, have, err, want)
			}
		}
	}
	give()
	wantLimits(false)
	give(steps.Spec{ID: "s", Kind: "service_account_token",
		Args: steps.MustArgs(&kinds.ServiceAccountToken{Namespace: "kube-system", Name: "a"})})
	wantLimits(true)
}

// inOrder is a cluster in which no account of a first boot gets a right to tokens before the limits are there.
type inOrder struct {
	kube.API
	t *testing.T
}

func (c inOrder) EnsureServiceAccount(ctx context.Context, want kube.ServiceAccount) error {
	mints := slices.ContainsFunc(want.Rules, func(r kube.Rule) bool {
		return slices.Contains(r.Resources, "serviceaccounts/token")
	})
	for _, m := range kube.FirstBootLimits() {
		if have, err := c.Manifest(ctx, m); err != nil || mints && !have.Exists {
			c.t.Errorf("%s gets tokens before there is the %s: %v", want.Name, m, err)
		}
	}
	return c.API.EnsureServiceAccount(ctx, want)
}

// minting is a cluster whose policy is not in force: a token is refused only because what it is for is not there.
type minting struct {
	kube.API
	revoked string
}

func (minting) ServiceAccountToken(context.Context, kube.TokenRequest) (string, time.Time, error) {
	return "", time.Time{}, fs.ErrNotExist
}

func (m *minting) RevokeToken(_ context.Context, id string) error {
	m.revoked = id
	return nil
}

// TestUnlimitedAccount: no user data is written for a cluster that would give its account tokens of other Nodes, or
// that cannot be asked, and the account's access ends.
func TestUnlimitedAccount(t *testing.T) {
	m := &minting{}
	request := kube.TokenRequest{Namespace: "kube-flannel", Name: "flannel", Node: "n"}
	err := awaitLimits(t.Context(), m, request, 10*time.Millisecond)
	if want := "does not refuse a token of kube-flannel/flannel that is not bound to the Node"; err == nil ||
		!strings.Contains(steps.AsError(err).Detail, want) {
		t.Errorf("%v, want %q", err, want)
	}
	f := File{Token: "abcdef.0123456789abcdef", Account: "x"}
	gone := &plan.Cluster{Kubeconfig: filepath.Join(t.TempDir(), "gone")}
	if err := f.proveLimits(t.Context(), m, gone, []kube.TokenRequest{request}); err == nil || m.revoked != "abcdef" {
		t.Errorf("%v; %q is revoked", err, m.revoked)
	}
}
