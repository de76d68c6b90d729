package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
)

func newKubeadmNode(t *testing.T) *node {
	return newNode(t, func(in *recipe.Input, _ string) { in.Join = recipe.Join{Kind: "kubeadm", TTL: 15 * time.Minute} })
}

// TestKubeadm: kubeadm joins a machine, a second run does nothing, and changes of its files are fixed.
func TestKubeadm(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newKubeadmNode(t)
	n.converge(t, ctx)
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := r.apply(ctx); err != nil || len(changed) > 0 || r.x.Mutations() > 0 {
		t.Fatalf("the second apply changed %v with %d mutating calls, %v", changed, r.x.Mutations(), err)
	}
	m := n.machine(t)
	svc, err := m.Service(ctx, "kubelet")
	if err != nil || svc.Start != host.StartAuto ||
		!slices.Contains(svc.Command, "--container-runtime-endpoint=npipe:////./pipe/containerd-containerd") {
		t.Errorf("kubelet: %+v, %v", svc, err)
	}
	for _, gone := range []string{`C:\etc\kubernetes\bootstrap-kubelet.conf`, `C:\etc\kubernetes\nodejoin-kubeadm.yaml`,
		`C:\etc\kubernetes\nodejoin-discovery.conf`} {
		if _, err := m.Stat(ctx, gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", gone, err)
		}
	}

	// A change of nodejoin's settings needs no new join; a change of the credentials does.
	for path, want := range map[string]string{`C:\var\lib\kubelet\config.conf.d\50-nodejoin.conf`: "kubelet_config",
		kubeletConf: "kubeadm_join"} {
		if err := m.WriteFile(ctx, path, strings.NewReader("edited"), host.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if r, err = n.run(ctx, n.machine(t)); err != nil {
			t.Fatal(err)
		}
		changed, err := r.apply(ctx)
		if err != nil || !slices.Contains(changed, want) ||
			want != "kubeadm_join" && slices.Contains(changed, "kubeadm_join") {
			t.Errorf("after an edit of %s: changed %v, %v", path, changed, err)
		}
		n.converge(t, ctx)
	}
}

// TestKubeadmInterrupted interrupts a kubeadm join before mutating calls, including all calls of the join
// itself.
func TestKubeadmInterrupted(t *testing.T) {
	_, calls := newKubeadmNode(t).cut(t, t.Context(), 0)
	for at := 1; at <= calls; at += 5 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			n := newKubeadmNode(t)
			call, _ := n.cut(t, ctx, at)
			t.Logf("cut before: %s", call)
			n.converge(t, ctx)
		})
	}
}

// TestKubeadmAnotherCluster: kubeadm does not trust the API server of a cluster with another CA, and the file
// with the token is removed.
func TestKubeadmAnotherCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n, other := newKubeadmNode(t), newNode(t)
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	info, err := other.cluster.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.values["cluster.ca"] = info.CA
	if _, err := r.apply(ctx); err == nil || !strings.Contains(err.Error(), "kubeadm could not join the machine") ||
		!strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("error %v", err)
	}
	if _, err := n.machine(t).Stat(ctx, `C:\etc\kubernetes\nodejoin-kubeadm.yaml`); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
