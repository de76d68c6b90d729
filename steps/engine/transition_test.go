package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// applied applies the plan and wants that the next run finds nothing to do.
func (w *world) applied(d drawn) error {
	w.write(d)
	r, sum := w.apply(-1)
	if err := r.Hosts[0].Err; err != nil {
		return err
	}
	for _, s := range r.Hosts[0].Steps {
		if s.Result.Err != nil {
			return fmt.Errorf("check of %s: %w", s.Spec.ID, s.Result.Err)
		}
	}
	if h := sum.Hosts[0]; h.Err != nil {
		return fmt.Errorf("%s: %w", h.Failed, h.Err)
	}
	return nil
}

func (w *world) quiet() error {
	r, sum := w.apply(-1)
	h := r.Hosts[0]
	var out []string
	for _, s := range h.Steps {
		if s.Result.Err != nil || !s.Result.Change.NoOp() {
			out = append(out, fmt.Sprintf("%s is not in order: %+v %v", s.Spec.ID, s.Result.Change, s.Result.Err))
		}
	}
	for _, i := range h.Removals.Removing() {
		out = append(out, fmt.Sprintf("%s is to be removed", i.Key))
	}
	if n := w.calls.Load(); n != 0 || sum.Hosts[0].Err != nil {
		out = append(out, fmt.Sprintf("%d mutating calls, %v", n, sum.Hosts[0].Err))
	}
	if out != nil {
		return fmt.Errorf("the plan after it is not empty: %s", strings.Join(out, "; "))
	}
	return nil
}

// pairs is how many pairs of plans are drawn, by the environment.
func pairs(t *testing.T) (n int, seed uint64) {
	n, seed = 4, uint64(time.Now().UnixNano())
	if testing.Short() {
		n = 1
	}
	if v := os.Getenv("NODEJOIN_PAIRS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv("NODEJOIN_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return n, seed
}

// TestPlanIsTheWholeTruth: of two plans drawn at random, the second leaves machine and cluster as it would have
// without the first; the first again leaves them as it had before; the plan after each is empty; and a leave leaves
// the machine as it was, with all that is of others on it (seedForeign).
//
// Not compared, as it stays until the leave or is of others: the machine's name and features; Namespaces; what flannel
// notes at the Node; the kubelet's serving certificate; images that were pulled, kubeadm's log and its copies of
// settings, and interfaces and chains where the cluster has a network of its own (forOthers); the order of the lines
// of /etc/environment. The plans of a pair do not differ in what is the cluster's or the machine's (ofPair).
//
// NODEJOIN_PAIRS sets how many pairs are drawn for each system, NODEJOIN_SEED draws those of a failure.
func TestPlanIsTheWholeTruth(t *testing.T) {
	n, seed := pairs(t)
	for i := range n {
		for _, osName := range []string{"windows", "linux"} {
			s := seed + uint64(i)
			t.Run(fmt.Sprintf("%s-%d", osName, s), func(t *testing.T) {
				t.Parallel()
				bubble(func(t *testing.T) {
					a, b := drawPair(t, rand.New(rand.NewPCG(s, 1)), osName)
					t.Logf("seed %d\nA: %s\nB: %s", s, a, b)
					pairOf(t, a, b)
				})(t)
			})
		}
	}
}

func pairOf(t *testing.T, a, b drawn) {
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	alone := newDrawnWorld(t, a, b)
	must("B alone", alone.applied(b))
	want := facts(t, alone, a, b)
	w := newDrawnWorld(t, a, b)
	w.write(a)
	untouched := settled(snapshot(t, w.sandboxDir()))
	must("A", w.applied(a))
	first := facts(t, w, a, b)
	must("A then B", w.applied(b))
	if d := cmp.Diff(want, facts(t, w, a, b)); d != "" {
		t.Errorf("B alone (-), A then B (+):\n%s", d)
	}
	must("A then B", w.quiet())
	must("A, B, A", w.applied(a))
	if d := cmp.Diff(first, facts(t, w, a, b)); d != "" {
		t.Errorf("A (-), A then B then A (+):\n%s", d)
	}
	must("A, B, A", w.quiet())
	must("leave", leaves(w))
	left := settled(snapshot(t, w.sandboxDir()))
	forOthers(left, a, b)
	if d := cmp.Diff(untouched, left); d != "" {
		t.Errorf("untouched (-), after the leave (+):\n%s", d)
	}
}

// facts are those of a world, for a pair.
func facts(t *testing.T, w *world, a, b drawn) map[string]string {
	t.Helper()
	out := w.facts(t)
	forOthers(out, a, b)
	return out
}

// ofKubeadm are kubeadm's log and the folder of the settings that an upgrade by it replaced; accessOfKubeadm matches
// the lines with their access.
var (
	ofKubeadm       = regexp.MustCompile(`/kubeadm\.log$|(^|/)etc/kubernetes/tmp(/|$)`)
	accessOfKubeadm = regexp.MustCompile(`(?m)^.*(/kubeadm\.log|["/]etc/kubernetes/tmp(/[^"]*)?)".*\n`)
)

// forOthers leaves out what is not nodejoin's: images are the container runtime's, in a data folder that a sandbox
// does not have (kind image); kubeadm writes its log and copies once, in a join or an upgrade; with network "none",
// packet filter and interfaces are the cluster's.
func forOthers(facts map[string]string, a, b drawn) {
	delete(facts, "state: pulled")
	maps.DeleteFunc(facts, func(path, _ string) bool { return ofKubeadm.MatchString(path) })
	if access, ok := facts["state: access"]; ok {
		facts["state: access"] = accessOfKubeadm.ReplaceAllString(access, "")
	}
	for _, d := range []drawn{a, b} {
		if _, ok := d.needs()["flanneld"]; !ok {
			delete(facts, "state: chains")
			delete(facts, "state: links")
		}
	}
}

// newDrawnWorld is a world for the plans of a pair, with a machine that has things of others all over.
func newDrawnWorld(t *testing.T, a, b drawn) *world {
	t.Helper()
	w := newWorld(t)
	w.downgrade, w.bound = true, time.Minute
	w.write(a)
	n := w.known().Nodes[0]
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: n.Connection.Sandbox.Path, OS: n.OS,
		Build: n.Connection.Sandbox.Build, IP: n.Connection.Sandbox.IP,
		IP6: n.Connection.Sandbox.IP6, Hostname: "win-1", DataDir: n.DataDir,
		ClusterDir: n.Connection.Sandbox.ClusterDir})
	if err != nil {
		t.Fatal(err)
	}
	seedForeign(t, h, n.OS)
	if a.has("installed") && (a.has("docker") || a.has("mcr") || b.has("docker") || b.has("mcr")) {
		for _, err := range []error{
			h.WriteFile(t.Context(), `C:\Program Files\docker\dockerd.exe`, strings.NewReader("theirs"),
				host.WriteOptions{}),
			h.CreateService(t.Context(), host.ServiceConfig{Name: "docker", Start: host.StartAuto,
				Command: []string{`C:\Program Files\docker\dockerd.exe`, "--run-service"}}),
			h.StartService(t.Context(), "docker"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if a.has("none hns") || b.has("none hns") { // the network of a CNI that is not nodejoin's
		if err := h.CreateHNSNetwork(t.Context(), host.HNSNetworkConfig{Name: "Calico", Type: "L2Bridge",
			Subnet: "10.250.0.0/24"}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestKilledTransitions: the apply of the second of two plans ends at each of its mutating
// calls. The next run ends where it would have, and the one after finds nothing to do.
func TestKilledTransitions(t *testing.T) {
	n, seed := pairs(t)
	step := 1
	if os.Getenv("NODEJOIN_PAIRS") == "" {
		n, step = 1, 9
	}
	if os.Getenv("NODEJOIN_PAIRS")+os.Getenv("NODEJOIN_SEED") == "" {
		seed = 1 // one pair, always the same: NODEJOIN_PAIRS draws others
	}
	for i := range n {
		for _, osName := range []string{"windows", "linux"} {
			s := seed + uint64(i)
			t.Run(fmt.Sprintf("%s-%d", osName, s), func(t *testing.T) {
				a, b := drawPair(t, rand.New(rand.NewPCG(s, 1)), osName)
				t.Logf("seed %d\nA: %s\nB: %s", s, a, b)
				killedTransition(t, a, b, step)
			})
		}
	}
}

func killedTransition(t *testing.T, a, b drawn, step int) {
	alone := newDrawnWorld(t, a, b)
	if err := alone.applied(b); err != nil {
		t.Fatal(err)
	}
	want := facts(t, alone, a, b)
	w := newDrawnWorld(t, a, b)
	if err := w.applied(a); err != nil {
		t.Fatal(err)
	}
	w.write(b)
	ended, kept := []string{}, t.TempDir()
	w.at = func(n int64) {
		if n%int64(step) != 0 {
			return
		}
		dir := filepath.Join(kept, fmt.Sprintf("%03d", n))
		if err := copyTree(dir, w.dir); err != nil {
			t.Error(err)
		}
		ended = append(ended, dir)
	}
	if err := w.applied(b); err != nil {
		t.Fatal(err)
	}
	for _, dir := range ended {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			c := w.movedTo(t, dir)
			if err := c.applied(b); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, facts(t, c, a, b)); d != "" {
				t.Errorf("the second plan alone (-), after a run that was killed (+):\n%s", d)
			}
			if err := c.quiet(); err != nil {
				t.Error(err)
			}
		})
	}
}

// volatile is what differs between two runs of the same.
var volatile = regexp.MustCompile(`"(pid|started|boot_time|id)": [^,\n]*,?`)

func settled(s map[string]string) map[string]string {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(k, v string) bool {
		slashed := filepath.ToSlash(k)
		// each Windows has these, each Linux those
		there := k == "state: modules" || k == "C" || slashed == "C/ProgramData" || k == "run" || k == "tmp"
		// what a service of the sandbox does later, at a time of the clock
		return k == "state: boot_time" || k == "state: due" || there || strings.Contains(slashed+"/",
			"/nodejoin/") ||
			strings.HasPrefix(k, "state: ") && (v == "{}" || v == "null" || v == "[]")
	})
	out["state: registry"] = emptyKey.ReplaceAllString(out["state: registry"], "")
	out["state: services"] = processes.ReplaceAllString(out["state: services"], "")
	if text, ok := out["etc/environment"]; ok { // others' lines are not moved
		out["etc/environment"] = strings.Join(slices.Sorted(strings.Lines(text)), "")
	}
	// The machine's name and its features stay until it leaves, and are what they were after its next boot.
	delete(out, "state: features")
	delete(out, "state: host_name")
	delete(out, "state: next_name")
	delete(out, "state: noted")
	out["state: registry"] = machineName.ReplaceAllString(out["state: registry"], "")
	return out
}

// machineName is what the registry says of it.
var machineName = regexp.MustCompile(`(?m)^ *"string": "(?i:win-1|web-1|site-1|own-1)",?\n`)

// ownThings are the access of what is in nodejoin's own folder, and of the kubelet's serving certificate.
var ownThings = regexp.MustCompile(`(?m)^ "[^"]*(/nodejoin[^"]*|kubelet-server-current\.pem)": [^\n]*\n`)

// namespaces are objects that stay, as others may have objects in them.
var namespaces = regexp.MustCompile(`/Namespace//\S+ ?|,?Namespace\b`)

// emptyKey is a registry key without values; the sandbox has no entry for some of them.
var emptyKey = regexp.MustCompile(`(?m)^ "[^"]*": \{\},?\n`)

// facts is what the machine is, and its Node, without what is of one run alone.
func (w *world) facts(t *testing.T) map[string]string {
	t.Helper()
	return w.factsOf(t, "win-1")
}

func (w *world) factsOf(t *testing.T, node string) map[string]string {
	t.Helper()
	out := settled(kept(snapshot(t, w.sandboxDir())))
	for k, v := range out {
		if strings.HasPrefix(k, "state: ") {
			out[k] = volatile.ReplaceAllString(v, "")
		}
		if strings.Contains(k, "kubelet-server-current.pem") {
			delete(out, k) // the kubelet's own, as long as the node is joined
			continue
		}
		for _, part := range []string{"pki", "kubelet.conf", "flannel.conf", "flannel.token", "kube-proxy.conf",
			"kube-proxy.token", "nodejoin-node.conf", "nodejoin-node.token", "nodejoin-follow.", "bootstrap"} {
			if strings.Contains(strings.ToLower(k), part) && !strings.HasPrefix(k, "state") {
				out[k] = "there"
			}
		}
	}
	n := w.node(node)
	maps.DeleteFunc(n.Annotations, func(k, _ string) bool { // flannel's stay, as long as the Node is there
		return k == kube.LastApply || strings.HasPrefix(k, "flannel.alpha.coreos.com/")
	})
	out["state: access"] = strings.ReplaceAll(ownThings.ReplaceAllString(out["state: access"], ""), ",", "")
	left := namespaces.ReplaceAllString(strings.Join(w.objects(), " "), "")
	objects := strings.Fields(strings.ReplaceAll(left, "(,", "("))
	out["objects"] = strings.Join(slices.DeleteFunc(objects, func(o string) bool {
		return strings.HasSuffix(o,
			"()")
	}), " ")
	slices.SortFunc(n.Taints, func(a, b kube.Taint) int { return strings.Compare(a.Key, b.Key) })
	out["node"] = fmt.Sprintf("%v %v %v", n.Labels, n.Taints, slices.Sorted(maps.Keys(n.Annotations)))
	return out
}
