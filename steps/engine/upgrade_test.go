package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/executor"
	"nodejoin/steps/kube"
)

// kubernetes sets the plan's version, with an archive of stand-ins of that version.
func (w *world) kubernetes(version string) {
	w.t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	for _, name := range []string{"kubelet.exe", "kube-proxy.exe", "kube-log-runner.exe", "kubectl.exe", "kubeadm.exe"} {
		text := "stand-in for " + name + " v" + version + "\n"
		if w.ends && name == "kubelet.exe" {
			text += "It exits with 3.\n"
		}
		if err := tw.WriteHeader(&tar.Header{Name: "kubernetes/node/bin/" + name, Mode: 0o755,
			Size: int64(len(text))}); err != nil {
			w.t.Fatal(err)
		}
		if _, err := tw.Write([]byte(text)); err != nil {
			w.t.Fatal(err)
		}
	}
	archive := filepath.Join(w.dir, "mirror", "kubernetes-node-windows-amd64.tar.gz")
	if err := errors.Join(tw.Close(), gz.Close(), os.WriteFile(archive, b.Bytes(), 0o644)); err != nil {
		w.t.Fatal(err)
	}
	w.edit(`(?m)^  kubernetes .*$`, fmt.Sprintf("  kubernetes = %q", version))
	w.edit(`artifact "kubernetes_node" .*`, fmt.Sprintf("artifact \"kubernetes_node\" { sha256 = %q }",
		sha256File(w.t, archive)))
}

// edit replaces a pattern in the plan.
func (w *world) edit(pattern, with string) {
	w.t.Helper()
	name := filepath.Join(w.dir, "quickstart.join.hcl")
	text, err := os.ReadFile(name)
	re := regexp.MustCompile(pattern)
	if err != nil || !re.Match(text) {
		w.t.Fatalf("%s is not in the plan: %v", pattern, err)
	}
	if err := os.WriteFile(name, re.ReplaceAllLiteral(text, []byte(with)), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// check checks everything and changes nothing.
func (w *world) check() *engine.Report {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := w.session(w.compile())
	defer s.Close()
	w.limit = 0 // any change fails
	defer func() { w.limit = -1 }()
	return s.Check(ctx)
}

func (w *world) wantVersion(node, version string) {
	w.t.Helper()
	n, err := w.cluster().Node(w.t.Context(), node)
	if err != nil || n.KubeletVersion != "v"+version || !n.Ready || n.Unschedulable {
		w.t.Errorf("the Node %s is %+v, %v; want a Ready kubelet v%s that takes pods", node, n, err, version)
	}
}

// refusal returns the only step error of a check of the first host.
func refusal(t *testing.T, r *engine.Report) *steps.Error {
	t.Helper()
	for _, s := range r.Hosts[0].Steps {
		if s.Result.Err != nil {
			return s.Result.Err
		}
	}
	t.Fatalf("nothing was refused: %v", r.Hosts[0].Err)
	return nil
}

// TestPlanShowsUpgrade: if the version in the plan changes, the plan shows the upgrade, what it means and what it
// interrupts, before anything is changed.
func TestPlanShowsUpgrade(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.kubernetes("1.35.4")
	if r := w.check(); r.Hosts[0].Upgrade != nil || r.Hosts[0].Interruption != nil {
		t.Errorf("a first join is shown as %+v, %+v", r.Hosts[0].Upgrade, r.Hosts[0].Interruption)
	}
	w.mustConverge()
	w.wantVersion("win-1", "1.35.4")
	w.mustBeQuiet()
	for _, p := range []kube.Pod{{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		{Namespace: "kube-system", Name: "agent", Controller: "DaemonSet"}} {
		if err := w.cluster().AddPod(t.Context(), "win-1", p, ""); err != nil {
			t.Fatal(err)
		}
	}
	w.kubernetes("1.36.3")
	r := w.check()
	for _, s := range r.Hosts[0].Steps {
		if s.Spec.ID == "registered" && (s.Result.Change.Action != steps.ActionWait ||
			s.Result.Change.Outputs["pod_cidr"] == "") {
			t.Errorf("the check of the version's gate is %+v", s.Result.Change)
		}
		if s.Spec.ID == "source_vip" && !s.Result.Change.NoOp() {
			t.Errorf("not known although the Node is there: %+v", s.Result.Change)
		}
	}
	u, i := r.Hosts[0].Upgrade, r.Hosts[0].Interruption
	if u == nil || u.From != "1.35.4" || u.To != "1.36.3" || u.Downgrade {
		t.Fatalf("the upgrade is shown as %+v", u)
	}
	if i == nil || !slices.Equal(i.Services, []string{"kubelet"}) || !slices.Equal(i.Evict, []string{"d/web"}) {
		t.Fatalf("the interruption is %+v", i)
	}
	// A pod without a controller blocks the upgrade, unless its loss is accepted.
	if err := w.cluster().AddPod(t.Context(), "win-1", kube.Pod{Namespace: "d", Name: "bare"}, ""); err != nil {
		t.Fatal(err)
	}
	if e := refusal(t, w.check()); e.Summary != "pods block the drain" || !strings.Contains(e.Remedy, "--force") {
		t.Errorf("have %+v", e)
	}
	w.drain.Force = true
	if i := w.check().Hosts[0].Interruption; i == nil || len(i.Evict) != 2 {
		t.Errorf("with force: %+v", i)
	}
	// A change that stops neither kubelet nor runtime interrupts nothing.
	w.kubernetes("1.35.4")
	w.edit(`was joined by nodejoin`, "joined")
	if r := w.check(); r.Pending() != 1 || r.Hosts[0].Interruption != nil || r.Hosts[0].Upgrade != nil {
		t.Errorf("%d pending, %+v, %+v", r.Pending(), r.Hosts[0].Upgrade, r.Hosts[0].Interruption)
	}
}

// TestPlanTellsFlags: the plan shows how another version changes the way programs run: flags that disappear and fields
// that appear.
func TestPlanTellsFlags(t *testing.T) {
	w := newWorld(t)
	w.one = true
	if err := w.cluster().Upgrade(t.Context(), "v1.27.16"); err != nil {
		t.Fatal(err)
	}
	w.kubernetes("1.26.15")
	w.mustConverge()
	w.kubernetes("1.27.16")
	u := w.check().Hosts[0].Upgrade
	if u == nil || u.From != "1.26.15" || u.To != "1.27.16" {
		t.Fatalf("the upgrade is shown as %+v", u)
	}
	for _, want := range []string{"kubelet: flag --container-runtime-endpoint dropped: ",
		"kubelet: field containerRuntimeEndpoint added: "} {
		if !slices.ContainsFunc(u.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
			t.Errorf("the notes do not say %q: %q", want, u.Notes)
		}
	}
	w.mustConverge()
	w.wantVersion("win-1", "1.27.16")
	w.mustBeQuiet()
}

// TestUpgradeIsRefused: a version that the API server would refuse, and one that is older than the running one, are
// refused before anything is changed.
func TestUpgradeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.kubernetes("1.35.4")
	if err := w.cluster().Upgrade(t.Context(), "v1.34.1"); err != nil {
		t.Fatal(err)
	}
	refuse := func(summary, detail string) {
		t.Helper()
		r, sum := w.apply(-1)
		if e := refusal(t, r); e.Summary != summary || !strings.Contains(e.Detail, detail) {
			t.Errorf("refused with %+v, want %s: %s", e, summary, detail)
		}
		if n := w.calls.Load(); n != 0 || sum.Hosts[0].Err == nil {
			t.Errorf("%d mutating calls, %v", n, sum.Hosts[0].Err)
		}
	}
	refuse("version skew", "newer than the API server 1.34") // a first join
	if err := w.cluster().Upgrade(t.Context(), "v1.35.1"); err != nil {
		t.Fatal(err)
	}
	w.mustConverge()
	w.kubernetes("1.36.3")
	refuse("version skew", "newer than the API server 1.35")
	w.kubernetes("1.31.9")
	refuse("version skew", "4 minor versions older")
	w.kubernetes("1.35.3")
	refuse("a downgrade", "the kubelet of the node is v1.35.4")
	w.downgrade = true
	if u := w.check().Hosts[0].Upgrade; u == nil || !u.Downgrade {
		t.Errorf("the downgrade is shown as %+v", u)
	}
	w.mustConverge()
	w.wantVersion("win-1", "1.35.3")
	w.mustBeQuiet()
}

// An archive has another version than the plan says. The run reports it when the kubelet registers, and the next run
// before it changes anything. A plan with the archive's version continues.
func TestArchiveOfAnotherVersion(t *testing.T) { synctest.Test(t, archiveOfAnotherVersion) }

func archiveOfAnotherVersion(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.holder = steps.LockHolder{Run: "20261122-120000-AAAAAA", Command: "apply"} // otherwise nothing is noted
	w.kubernetes("1.36.2")
	w.edit(`(?m)^  kubernetes .*$`, `  kubernetes = "1.36.3"`)
	if _, sum := w.apply(-1); sum.Hosts[0].Failed != "registered" ||
		steps.AsError(sum.Hosts[0].Err).Code != steps.CodeOtherVersion {
		t.Fatalf("have %s: %v", sum.Hosts[0].Failed, sum.Hosts[0].Err)
	}
	if e := refusal(t, w.check()); e.Code != steps.CodeOtherVersion ||
		!strings.Contains(e.Detail, "the plan wants Kubernetes 1.36.3") || !strings.Contains(e.Remedy, `"1.36.2"`) {
		t.Errorf("the next run is refused with %+v", e)
	}
	w.edit(`(?m)^  kubernetes .*$`, `  kubernetes = "1.36.2"`)
	w.mustConverge()
	w.wantVersion("win-1", "1.36.2")
	w.mustBeQuiet()
}

func (k killableCluster) Uncordon(ctx context.Context, node string) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.Uncordon(ctx, node)
}

// TestUpgradeKilledAgainAndAgain: an upgrade that is killed again and again, each time one mutating call later,
// completes in the end. The Node accepts no pods from before the kubelet stops until everything is verified, its pods
// are evicted, and then it accepts pods again.
func TestUpgradeKilledAgainAndAgain(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.kubernetes("1.35.4")
	w.mustConverge()
	api := w.cluster()
	for _, p := range []kube.Pod{{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		{Namespace: "kube-system", Name: "agent", Controller: "DaemonSet"}} {
		if err := api.AddPod(t.Context(), "win-1", p, ""); err != nil {
			t.Fatal(err)
		}
	}
	w.kubernetes("1.36.3")
	stopped := 0
	w.before = func(req executor.Request) {
		if !slices.ContainsFunc(req.Steps, func(s steps.Spec) bool { return s.ID == "kubernetes_node" }) {
			return
		}
		n, err := api.Node(t.Context(), "win-1")
		pods, podsErr := api.Pods(t.Context(), "win-1")
		if err != nil || podsErr != nil || n.KubeletVersion == "v1.35.4" && n.Ready && (!n.Unschedulable || len(pods) != 1) {
			t.Errorf("before the kubelet stops: the Node is %+v, pods %v, %v, %v", n, pods, err, podsErr)
		}
		stopped++
	}
	const most = 100
	runs := 0
	for done := false; !done; runs++ {
		if runs == most {
			t.Fatalf("not done after %d runs", most)
		}
		_, sum := w.apply(int64(runs))
		if err := sum.Hosts[0].Err; err == nil {
			done = true
		} else if !strings.Contains(err.Error(), errKilled.Error()) {
			t.Fatalf("run %d, %s: %v", runs, sum.Hosts[0].Failed, err)
		}
	}
	if runs < 10 || stopped == 0 {
		t.Errorf("%d runs, %d batches that stop the kubelet", runs, stopped)
	}
	w.wantVersion("win-1", "1.36.3")
	w.before = nil
	w.mustBeQuiet()
}

// TestUpgradeRespectsBudgets: a disruption budget blocks the drain of an upgrade. The drain ends at its timeout, the
// running kubelet is not touched, and the next apply continues once the budget allows it.
func TestUpgradeRespectsBudgets(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.kubernetes("1.35.4")
	w.mustConverge()
	_, dir := w.box()
	api, ctx := w.cluster(), t.Context()
	if err := errors.Join(api.AddPod(ctx, "win-1", kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		"web"), api.SetBudget(ctx, "web", 0)); err != nil {
		t.Fatal(err)
	}
	w.kubernetes("1.36.3")
	before := kept(snapshot(t, dir))
	w.drain.Timeout = 50 * time.Millisecond
	_, sum := w.apply(-1)
	if h := sum.Hosts[0]; h.Err == nil || !strings.Contains(h.Err.Error(), "d/web") || len(h.Changed) > 0 ||
		h.Rollback != nil {
		t.Errorf("failed at %s: %v; changed %v, rolled back %+v", h.Failed, h.Err, h.Changed, h.Rollback)
	}
	if d := cmp.Diff(before, kept(snapshot(t, dir))); d != "" {
		t.Errorf("the machine was changed (-before +after):\n%s", d)
	}
	if pods, err := api.Pods(ctx, "win-1"); err != nil || len(pods) != 1 {
		t.Errorf("pods %v, %v; want the one of the budget", pods, err)
	}
	if n := w.node("win-1"); !n.Ready || n.KubeletVersion != "v1.35.4" {
		t.Errorf("the Node is %+v", n)
	}
	w.drain.Timeout = time.Minute
	if err := api.SetBudget(ctx, "web", 1); err != nil {
		t.Fatal(err)
	}
	w.mustConverge()
	w.wantVersion("win-1", "1.36.3")
	w.mustBeQuiet()
}

// TestUpgradeKeepsForeignCordon: a Node that a person has cordoned is drained for an upgrade and stays cordoned.
func TestUpgradeKeepsForeignCordon(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.kubernetes("1.35.4")
	w.mustConverge()
	if err := w.cluster().SetUnschedulable(t.Context(), "win-1", true); err != nil {
		t.Fatal(err)
	}
	w.kubernetes("1.36.3")
	w.mustConverge()
	if n, err := w.cluster().Node(t.Context(), "win-1"); err != nil || !n.Unschedulable || n.KubeletVersion != "v1.36.3" {
		t.Errorf("the Node is %+v, %v", n, err)
	}
}
