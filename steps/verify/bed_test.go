package verify_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
	"nodejoin/steps/verify"
)

// bed is a simulated cluster with two Windows nodes and a Linux one.
type bed struct {
	t       *testing.T
	dir     string
	cluster *sandbox.Cluster
	opt     verify.Options
	waits   []string
	told    []verify.Result
	mu      sync.Mutex
	onWait  func() // may be nil
}

var osTaint = kube.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"}

func node(name, os, ip, subnet string, taints ...kube.Taint) kube.Node {
	n := kube.Node{Name: name, UID: name, Ready: true, PodCIDR: subnet, InternalIP: ip, KubeletVersion: "v1.36.3",
		Taints: taints,
		Labels: map[string]string{"kubernetes.io/os": os, "kubernetes.io/hostname": name}}
	if os == "windows" {
		n.Labels["node.kubernetes.io/windows-build"] = "10.0.20348"
	}
	return n
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, dir: t.TempDir()}
	var err error
	b.cluster, err = sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: b.dir})
	must(t, err)
	b.put(node("win-1", "windows", "192.0.2.11", "10.244.1.0/24", osTaint))
	b.put(node("win-2", "windows", "192.0.2.12", "10.244.2.0/24", osTaint))
	b.put(node("lin-1", "linux", "192.0.2.13", "10.244.3.0/24"))
	b.opt = verify.Options{API: b.cluster, Targets: []verify.Target{{Node: "win-1", Version: "1.36.3"}},
		DNSDomain: "cluster.local", Outbound: "https://registry.example/",
		Image:   func(os, build string) (string, error) { return "image-for-" + os + "-" + build, nil },
		Outside: b.cluster.Outside, Holder: "ctl 7", Start: verify.DefaultStart, Answer: verify.DefaultAnswer,
		Clean: verify.DefaultClean, Reporter: b}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bed) put(n kube.Node) { must(b.t, b.cluster.PutNode(b.t.Context(), n)) }

func (b *bed) quirks(q sandbox.ClusterQuirks) {
	raw, err := json.Marshal(q)
	must(b.t, err)
	must(b.t, os.WriteFile(filepath.Join(b.dir, "quirks.json"), raw, 0o600))
}

func (b *bed) Waits(node, flow, seen string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = append(b.waits, node+" "+flow+" "+seen)
	if b.onWait != nil {
		b.onWait()
	}
}

func (b *bed) Done(r verify.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, r)
}

// run verifies, and wants nothing of it to be left.
func (b *bed) run() *verify.Report {
	b.t.Helper()
	r, err := verify.Run(b.t.Context(), b.opt)
	must(b.t, err)
	if r.Remains != "" {
		b.t.Error(r.Remains)
	}
	b.none()
	if len(b.told) != len(r.Results) {
		b.t.Errorf("%d results, %d told", len(r.Results), len(b.told))
	}
	return r
}

func (b *bed) none() {
	b.t.Helper()
	if left, err := b.cluster.Namespaces(context.Background(), verify.Label); err != nil || len(left) > 0 {
		b.t.Errorf("left: %+v, %v", left, err)
	}
}

func of(r *verify.Report, node string) map[string]verify.Result {
	out := map[string]verify.Result{}
	for _, f := range r.Results {
		if f.Node == node {
			out[f.Flow] = f
		}
	}
	return out
}

// states are those flows of a node that did not pass, "flow=status".
func states(r *verify.Report, node string) string {
	var out []string
	for _, f := range r.Results {
		if f.Node == node && f.Status != verify.Pass {
			out = append(out, f.Flow+"="+string(f.Status))
		}
	}
	return strings.Join(out, " ")
}

const windowsLimits = "node-port-local=not_possible service-from-node=not_possible"
