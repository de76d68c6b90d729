package recipe_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

const (
	kubeletConf   = `C:\etc\kubernetes\kubelet.conf`
	bootstrapConf = `C:\etc\kubernetes\bootstrap-kubelet.conf`
)

// watched is a cluster that calls a function before each token is revoked.
type watched struct {
	kube.API
	revoke func(id string)
}

func (w watched) RevokeToken(ctx context.Context, id string) error {
	w.revoke(id)
	return w.API.RevokeToken(ctx, id)
}

// slowCertificate delays the kubelet's certificate: it moves the certificate away when the kubelet has started, and
// restores it when a step waits for it. It counts the revoked tokens. At each revocation the certificate must exist.
func (n *node) slowCertificate(t *testing.T) (revoked *int) {
	t.Helper()
	revoked = new(int)
	renamed := false
	n.emit = func(e event.Event) {
		h := n.machine(t)
		switch e := e.(type) {
		case event.StepDone:
			if e.Step == "kubelet_ready" && !renamed {
				if err := h.Rename(t.Context(), kubeletConf, kubeletConf+".renamed"); err != nil {
					t.Error(err)
				}
				renamed = true
			}
		case event.StepStarted:
			if e.Step == "kubelet_certificate" {
				if err := h.Rename(t.Context(), kubeletConf+".renamed", kubeletConf); err != nil {
					t.Error(err)
				}
			}
		}
	}
	n.cluster = watched{n.cluster, func(id string) {
		*revoked++
		if _, err := n.machine(t).Stat(t.Context(), kubeletConf); err != nil {
			t.Errorf("token %s is revoked before the kubelet has its certificate: %v", id, err)
		}
	}}
	return revoked
}

// TestRejoin: a new machine takes the name of a Node that still exists and is Ready. nodejoin
// must not mistake that Node or its condition for a sign of the new kubelet.
func TestRejoin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	n.converge(t, ctx)
	if err := os.RemoveAll(filepath.Join(n.dir, "machine")); err != nil {
		t.Fatal(err)
	}
	if kubeNode, err := n.cluster.Node(ctx, "win-1"); err != nil || !kubeNode.Ready {
		t.Fatalf("the earlier Node: %+v, %v", kubeNode, err)
	}
	revoked := n.slowCertificate(t)
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.apply(ctx); err != nil {
		t.Fatal(err)
	}
	if *revoked == 0 {
		t.Error("no token was revoked")
	}
	n.emit = nil
	n.converge(t, ctx)
}

// revokeAll revokes every bootstrap token of the node.
func (n *node) revokeAll(t *testing.T, ctx context.Context) (count int) {
	t.Helper()
	tokens, err := n.cluster.BootstrapTokens(ctx, "win-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if err := n.cluster.RevokeToken(ctx, token.ID); err != nil {
			t.Fatal(err)
		}
	}
	return len(tokens)
}

// TestTokenEndedBeforeStart: a join was interrupted after it wrote the bootstrap kubeconfig and registered the
// kubelet's service. Its token has expired since.
func TestTokenEndedBeforeStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	cutContext, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	h := host.Intercept(n.machine(t), func(op, subject string) error {
		if op == "start service" && subject == "kubelet" {
			kill(errCut)
		}
		return context.Cause(cutContext)
	})
	r, err := n.run(cutContext, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.apply(cutContext); err == nil {
		t.Fatal("the join was not cut")
	}
	m := n.machine(t)
	if _, err := m.Stat(ctx, bootstrapConf); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Service(ctx, "kubelet"); err != nil {
		t.Fatal(err)
	}
	if n.revokeAll(t, ctx) == 0 {
		t.Fatal("there was no token to revoke")
	}
	n.converge(t, ctx)
}

// TestTokenEndedOfRunningKubelet: the kubelet runs without a certificate and waits with an expired token. It reads
// a new token only when it starts. The Node still exists and is Ready.
func TestTokenEndedOfRunningKubelet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	n.converge(t, ctx)
	m := n.machine(t)
	ended, err := n.cluster.MintToken(ctx, "win-1", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.revokeAll(t, ctx)
	info, err := n.cluster.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(ctx, kubeletConf); err != nil {
		t.Fatal(err)
	}
	// The bootstrap kubeconfig of the interrupted run.
	boot := steps.Spec{ID: "boot", Kind: "kubeconfig",
		Args: steps.MustArgs(&kinds.Kubeconfig{Path: bootstrapConf, Server: "https://10.0.0.10:6443",
			CA: info.CA, User: "tls-bootstrap-token-user", Token: ended.ID + "." + ended.Secret})}
	r, err := n.run(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := r.x.Apply(ctx, executor.Request{Node: "win-1", Steps: []steps.Spec{boot}}); err != nil ||
		reply.Err != nil {
		t.Fatal(err, reply.Err)
	}
	if svc, err := m.Service(ctx, "kubelet"); err != nil || svc.State != host.ServiceRunning {
		t.Fatalf("kubelet is %s, %v", svc.State, err)
	}

	if r, err = n.run(ctx, n.machine(t)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"bootstrap_kubeconfig", "kubelet", "kubelet_certificate"} {
		if !slices.Contains(r.changes(), id) {
			t.Errorf("the check does not find that %s has something to do: %v", id, r.changes())
		}
	}
	var order []string
	h := host.Intercept(n.machine(t), func(op, subject string) error {
		if strings.HasSuffix(op, "service") && subject == "kubelet" || subject == bootstrapConf {
			order = append(order, op)
		}
		return nil
	})
	if r, err = n.run(ctx, h); err != nil {
		t.Fatal(err)
	}
	if _, err := r.apply(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []string{"stop service", "write file", "start service", "remove"}; !slices.Equal(order, want) {
		t.Errorf("the kubelet and its bootstrap kubeconfig: %v, want %v", order, want)
	}
	n.converge(t, ctx)
	if _, err := m.Stat(ctx, bootstrapConf); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the bootstrap kubeconfig is still there: %v", err)
	}
	if _, err := m.Stat(ctx, kubeletConf); err != nil {
		t.Error(err)
	}
}
