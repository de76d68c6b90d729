package recipe_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
)

// nodeKubeconfig is a kubeconfig of the node win-1 of the sandbox cluster in dir.
func nodeKubeconfig(t *testing.T, dir string) string {
	t.Helper()
	cluster, err := sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	text, err := cluster.Kubeconfig(t.Context(), "win-1", "https://10.0.0.10:6443")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func newGivenNode(t *testing.T) *node {
	return newNode(t, func(in *recipe.Input, dir string) {
		in.Join = recipe.Join{Kind: "kubeconfig", Kubeconfig: nodeKubeconfig(t, dir), Certificate: true}
	})
}

// TestGivenKubeconfig: a node joins with the kubeconfig of the plan, without a token. A second run does
// nothing, and a kubeconfig that was edited on the node is fixed.
func TestGivenKubeconfig(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newGivenNode(t)
	for _, s := range n.specs {
		if s.Kind == "bootstrap_token" {
			t.Errorf("step %s is of kind %s", s.ID, s.Kind)
		}
	}
	n.converge(t, ctx)
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := r.apply(ctx); err != nil || len(changed) > 0 || r.x.Mutations() > 0 {
		t.Fatalf("the second apply changed %v with %d mutating calls, %v", changed, r.x.Mutations(), err)
	}
	m := n.machine(t)
	if fi, err := m.Stat(ctx, kubeletConf); err != nil || fi.Access != host.AccessPrivate {
		t.Errorf("%s: %+v, %v", kubeletConf, fi, err)
	}
	if err := m.WriteFile(ctx, kubeletConf, strings.NewReader("edited"), host.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, err = n.run(ctx, n.machine(t)); err != nil {
		t.Fatal(err)
	}
	changed, err := r.apply(ctx)
	if err != nil || !slices.Equal(changed, []string{"kubelet_kubeconfig"}) {
		t.Errorf("after an edit of %s: changed %v, %v", kubeletConf, changed, err)
	}
	n.converge(t, ctx)
}

// TestGivenKubeconfigInterrupted interrupts a join with a given kubeconfig before mutating calls, including those
// for the credentials and the kubelet.
func TestGivenKubeconfigInterrupted(t *testing.T) {
	_, calls := newGivenNode(t).cut(t, t.Context(), 0)
	for at := 1; at <= calls; at += 7 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			n := newGivenNode(t)
			call, _ := n.cut(t, ctx, at)
			t.Logf("cut before: %s", call)
			n.converge(t, ctx)
		})
	}
}

// TestGivenKubeconfigOfAnotherCluster: the kubelet does not start with a kubeconfig of another cluster.
func TestGivenKubeconfigOfAnotherCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	other := newNode(t)
	n := newNode(t, func(in *recipe.Input, _ string) {
		in.Join = recipe.Join{Kind: "kubeconfig", Kubeconfig: nodeKubeconfig(t, filepath.Join(other.dir, "cluster")),
			Certificate: true}
	})
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.apply(ctx); err == nil || !strings.Contains(err.Error(), "another CA") {
		t.Errorf("error %v, want one about another CA", err)
	}
	if svc, err := n.machine(t).Service(ctx, "kubelet"); err == nil {
		t.Errorf("service kubelet is %s", svc.State)
	}
}

// TestServingCertificate: a kubelet with serverTLSBootstrap gets its serving certificate in the first run, and
// a renewed one in a later run.
func TestServingCertificate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const file = `C:\var\lib\kubelet\pki\kubelet-server-current.pem`
	serving := func(in *recipe.Input, _ string) {
		in.Kubelet.Config = map[string]any{"serverTLSBootstrap": true}
	}
	n := newNode(t, serving)
	n.converge(t, ctx)
	if fi, err := n.machine(t).Stat(ctx, file); err != nil || fi.Access != host.AccessPrivate {
		t.Errorf("%s: %+v, %v", file, fi, err)
	}
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := r.apply(ctx); err != nil || len(changed) > 0 || r.x.Mutations() > 0 {
		t.Fatalf("the second apply changed %v with %d mutating calls, %v", changed, r.x.Mutations(), err)
	}

	// The kubelet requests a new certificate, and this run approves it.
	m := n.machine(t)
	if err := m.Remove(ctx, file); err != nil {
		t.Fatal(err)
	}
	if err := m.StopService(ctx, "kube-proxy"); err != nil {
		t.Fatal(err)
	}
	if err := m.StopService(ctx, "kubelet"); err != nil {
		t.Fatal(err)
	}
	if err := m.StartService(ctx, "kubelet"); err != nil {
		t.Fatal(err)
	}
	if requests, err := n.cluster.ServingRequests(ctx, "win-1"); err != nil || len(requests) != 2 ||
		requests[0].Approved {
		t.Fatalf("requests %+v, %v", requests, err)
	}
	n.converge(t, ctx)
	if _, err := m.Stat(ctx, file); err != nil {
		t.Error(err)
	}
}
