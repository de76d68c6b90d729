package recipe_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
)

const mirror = "../../examples/quickstart/mirror"

// node is one sandbox machine and its cluster, with the steps of the recipe.
type node struct {
	dir     string
	name    string // of the Node
	os      string
	cluster kube.API
	sandbox *sandbox.Cluster // cluster, as its administrator sees it
	specs   []steps.Spec
	emit    func(event.Event) // of the machine's steps; may be nil
}

// newNode creates a node. change edits the input of its recipe; it also gets the cluster's folder.
func newNode(t *testing.T, change ...func(in *recipe.Input, cluster string)) *node {
	t.Helper()
	return newNodeIn(t, recipe.Network{Kind: "flannel", Version: "0.28.9", Backend: "vxlan", VNI: 4096, Port: 4789},
		change...)
}

func newNodeIn(t *testing.T, network recipe.Network, change ...func(in *recipe.Input, cluster string)) *node {
	t.Helper()
	n := &node{dir: t.TempDir()}
	var err error
	if n.sandbox, err = sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: filepath.Join(n.dir, "cluster"),
		PodCIDR: "10.244.0.0/16"}); err != nil {
		t.Fatal(err)
	}
	n.cluster = n.sandbox
	in := recipe.Input{
		Node: "win-1", OS: "windows", Arch: "amd64", Sandbox: true, Plan: "prod", Kubernetes: "1.36.3",
		APIServer: "https://10.0.0.10:6443",
		PodCIDR:   "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", DNSIP: "10.96.0.10", DNSDomain: "cluster.local",
		Join:    recipe.Join{Kind: "bootstrap_token", TTL: 15 * time.Minute},
		Runtime: recipe.Runtime{Kind: "containerd", Version: "2.2.1"},
		Network: network,
		Taints:  []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}}, Labels: map[string]string{"pool": "win"},
	}
	in.Artifacts = mirrored(t, map[string]string{
		"kubernetes_node": "kubernetes-node-windows-amd64.tar.gz", "containerd": "containerd-2.2.1-windows-amd64.tar.gz",
		"cni_plugins": "cni-plugins-windows-amd64-v1.9.1.tgz", "flannel_cni": "flannel-amd64.exe",
		"flanneld": "flanneld.exe", "agent": "flanneld.exe",
	})
	in.Artifacts["sdn_cni"] = sdnArchive(t, filepath.Join(n.dir, "sdn.zip"))
	for _, f := range change {
		f(&in, filepath.Join(n.dir, "cluster"))
	}
	n.name, n.os = in.Node, in.OS
	if n.specs, err = recipe.Expand(in); err != nil {
		t.Fatal(err)
	}
	return n
}

// mirrored are artifacts of the quickstart, by name.
func mirrored(t *testing.T, files map[string]string) map[string]steps.Source {
	t.Helper()
	out := map[string]steps.Source{}
	for name, file := range files {
		path, err := filepath.Abs(filepath.Join(mirror, file))
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		out[name] = steps.Source{File: path, SHA256: hex.EncodeToString(sum[:])}
	}
	return out
}

func (n *node) machine(t *testing.T) *sandbox.Host {
	t.Helper()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: filepath.Join(n.dir, "machine"), OS: n.os,
		Hostname:   strings.ToUpper(n.name),
		ClusterDir: filepath.Join(n.dir, "cluster")})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// run is one run over a machine: first a check, then each step in order.
type run struct {
	node    *node
	x       *executor.Executor
	values  map[string]string
	pending map[string]bool
}

func place(s steps.Spec) steps.Place {
	k, _ := kinds.Lookup(s.Kind)
	return k.Place
}

func (n *node) run(ctx context.Context, h host.Host) (*run, error) {
	info, err := n.cluster.Info(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{node: n, values: map[string]string{"cluster.ca": info.CA}, pending: map[string]bool{},
		x: executor.NewExecutor(kinds.Catalog(), h, artifact.New(artifact.Options{Direct: true}), func(e event.Event) {
			if n.emit != nil {
				n.emit(e)
			}
		})}
	var onHost, onCluster []steps.Spec
	for _, s := range n.specs {
		switch {
		case place(s) == steps.OnHost:
			onHost = append(onHost, s)
		case s.OnlyIf == "":
			onCluster = append(onCluster, s)
		}
	}
	var results []steps.Result
	results = append(results, executor.CheckCluster(ctx, kinds.Catalog(), "", n.name, onCluster, r.values,
		map[string]bool{}, n.cluster)...)
	reply, err := r.x.Check(ctx, executor.Request{Node: n.name, Steps: onHost, Values: r.values})
	if err != nil {
		return nil, err
	}
	maps.Copy(r.values, steps.FactValues(reply.Facts))
	for _, res := range append(results, reply.Results...) {
		if res.Err != nil {
			return nil, fmt.Errorf("check of %s: %w", res.ID, res.Err)
		}
		r.pending[res.ID] = !res.Change.NoOp()
	}
	return r, nil
}

// changes returns the steps for which the check found something to do.
func (r *run) changes() []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(r.pending)) {
		if r.pending[id] {
			out = append(out, id)
		}
	}
	return out
}

// apply returns the steps that changed something.
func (r *run) apply(ctx context.Context) (changed []string, err error) {
	for _, s := range r.node.specs {
		if place(s) == steps.OnHost {
			reply, err := r.x.Apply(ctx, executor.Request{Node: r.node.name, Steps: []steps.Spec{s}, Values: r.values})
			if err != nil {
				return changed, err
			}
			if reply.Err != nil {
				return changed, fmt.Errorf("%s: %w", s.ID, reply.Err)
			}
			maps.Copy(r.values, reply.Values)
			changed = append(changed, reply.Changed...)
			continue
		}
		if s.OnlyIf != "" && !r.pending[s.OnlyIf] {
			continue
		}
		e := &steps.Env{Node: r.node.name, StepID: s.ID, Progress: func(event.StepProgress) {}}
		res := executor.Run(ctx, r.node.name, s, r.values, e, func(event.Event) {},
			executor.Target{Kinds: kinds.Catalog(), Kube: r.node.cluster})
		if res.Err != nil {
			return changed, fmt.Errorf("%s: %w", s.ID, res.Err)
		}
		for k, v := range res.Outputs {
			r.values[s.ID+"."+k] = v
		}
		if res.Changed {
			changed = append(changed, s.ID)
		}
	}
	return changed, nil
}

// converge runs all steps and checks that the next run finds nothing to do.
func (n *node) converge(t *testing.T, ctx context.Context) {
	t.Helper()
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.apply(ctx); err != nil {
		t.Fatal(err)
	}
	if r, err = n.run(ctx, n.machine(t)); err != nil {
		t.Fatal(err)
	}
	if again := r.changes(); len(again) > 0 {
		t.Fatalf("the second check still finds %v", again)
	}
	kubeNode, err := n.cluster.Node(ctx, n.name)
	if err != nil || !kubeNode.Ready || kubeNode.Labels["pool"] != "win" || len(kubeNode.Taints) != 1 {
		t.Fatalf("Node %+v, %v", kubeNode, err)
	}
	if tokens, err := n.cluster.BootstrapTokens(ctx, n.name); err != nil || len(tokens) > 0 {
		t.Fatalf("%d bootstrap tokens are left, %v", len(tokens), err)
	}
}

func TestJoinsSandbox(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	// All steps have something to do, except the preflight and the steps that want something absent.
	if have, want := len(r.changes()),
		len(n.specs)-len([]string{"network_agrees", "seen", "require", "name_free", "cni_conf_first",
			"token_removed", "flannel_token", "kube_proxy_token", "guard_token",
			"join_token"}); have != want {
		t.Errorf("a fresh machine: %d steps have something to do, want %d: %v", have, want, r.changes())
	}
	n.converge(t, ctx)
	if r, err = n.run(ctx, n.machine(t)); err != nil {
		t.Fatal(err)
	}
	changed, err := r.apply(ctx)
	if err != nil || len(changed) > 0 || r.x.Mutations() > 0 {
		t.Fatalf("the second apply changed %v with %d mutating calls, %v", changed, r.x.Mutations(), err)
	}
}

// TestTokensOnlyWhenNeeded: a run over a joined node mints no token. If a token's file
// is gone, the run mints that token only.
func TestTokensOnlyWhenNeeded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	n.converge(t, ctx)
	h := n.machine(t)
	if err := h.Remove(ctx, `C:\etc\kubernetes\flannel.token`); err != nil {
		t.Fatal(err)
	}
	r, err := n.run(ctx, n.machine(t))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := r.apply(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(changed, "flannel_token") || !slices.Contains(changed, "flannel_token_file") {
		t.Errorf("changed %v, want flanneld's token and its file among them", changed)
	}
	for _, id := range []string{"join_token", "kube_proxy_token", "flannel_kubeconfig", "flanneld", "kubelet",
		"containerd"} {
		if slices.Contains(changed, id) {
			t.Errorf("%s changed as well: %v", id, changed)
		}
	}
	n.converge(t, ctx)
}

var errCut = errors.New("cut")

// cut runs a join that is killed before mutating call number at. It returns that call, "" if the join finished
// first.
func (n *node) cut(t *testing.T, ctx context.Context, at int) (call string, calls int) {
	t.Helper()
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	h := host.Intercept(n.machine(t), func(op, subject string) error {
		if calls++; calls < at || at == 0 {
			return nil
		}
		if call == "" {
			call = op + " " + subject
		}
		kill(errCut)
		return errCut
	})
	r, err := n.run(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.apply(ctx); err != nil && call == "" {
		t.Fatal(err)
	}
	return call, calls
}

// TestInterrupted interrupts a join before each mutating call in turn. The next run must converge, and the run
// after it must change nothing.
func TestInterrupted(t *testing.T) {
	_, calls := newNode(t).cut(t, t.Context(), 0)
	if calls < 60 {
		t.Errorf("a join takes only %d mutating calls", calls)
	}
	stride := 1
	if testing.Short() {
		stride = 10
	}
	for at := 1; at <= calls; at += stride {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			n := newNode(t)
			call, _ := n.cut(t, ctx, at)
			t.Logf("cut before: %s", call)
			n.converge(t, ctx)
		})
	}
}
