package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kube"
)

// changes is what the test's upgrade changes besides the programs: a rule, a value, a variable, a file and its folder,
// and a new service.
const changes = `
step "firewall_rule" "own" {
  on        = node.win
  name      = "own"
  direction = "in"
  action    = "allow"
  protocol  = "tcp"
  ports     = "PORT"
}
step "registry" "own_value" {
  on     = node.win
  key    = "HKLM\\SOFTWARE\\own"
  name   = "v"
  type   = "string"
  string = "PORT"
}
step "env" "own_variable" {
  on    = node.win
  name  = "OWN"
  value = "PORT"
}
`

// added is what only the new version has.
const added = `
step "file" "own_program" {
  on      = node.win
  path    = "C:\\own\\new\\own.exe"
  content = "stand-in"
}
step "service" "own_service" {
  on          = node.win
  name        = "own"
  description = "Own"
  command     = ["C:\\own\\new\\own.exe"]
  start       = "auto"
  after       = ["own_program"]
}
step "file" "late" {
  on      = node.win
  path    = "C:\\own\\late.txt"
  content = "x"
  before  = ["kubelet"]
}
`

// add appends to the plan.
func (w *world) add(text string) {
	w.t.Helper()
	name := filepath.Join(w.dir, "quickstart.join.hcl")
	have, err := os.ReadFile(name)
	if err = errors.Join(err, os.WriteFile(name, append(have, text...), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

// upgradable returns a joined node of 1.35.4 with two pods, whose plan asks for 1.36.3 and other changes. With broken,
// the kubelet of that version exits as soon as it is started.
func upgradable(t *testing.T, broken bool) (*world, map[string]string) {
	w := newWorld(t)
	w.one = true
	h, dir := w.box()
	seed(t, h)
	w.kubernetes("1.35.4")
	w.edit(`"example.com/pool" = "windows" \}`, `"example.com/pool" = "windows", zone = "one" }
  taint {
    key    = "zone"
    value  = "one"
    effect = "PreferNoSchedule"
  }`)
	w.add(strings.ReplaceAll(changes, "PORT", "1000"))
	w.mustConverge()
	api := w.cluster()
	for _, p := range []kube.Pod{{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		{Namespace: "kube-system", Name: "agent", Controller: "DaemonSet"}} {
		if err := api.AddPod(t.Context(), "win-1", p, ""); err != nil {
			t.Fatal(err)
		}
	}
	before := kept(snapshot(t, dir))
	w.upgradeTo("1.36.3", broken)
	w.edit(`"1000"`, `"2000"`)
	w.edit(`joined by nodejoin; its`, `upgraded; its`)
	w.add(added)
	return w, before
}

// failsLate is like upgradable, with other labels and taints of the Node and a step that fails after they are set.
func failsLate(t *testing.T) (*world, map[string]string) {
	w, before := upgradable(t, false)
	w.edit(`zone = "one" \}`, `zone = "two", tier = "new" }`)
	w.edit(`value  = "one"`, `value  = "two"`)
	w.add(bad)
	return w, before
}

// bad is a step that fails after the Node has its labels.
const bad = `
step "file" "bad" {
  on      = node.win
  path    = "C:\\own\\late.txt\\x"
  content = "x"
  after   = ["kube_proxy"]
}
`

// copy returns a world with the same plan and a copy of the machines and the cluster.
func (w *world) copy(t *testing.T) *world {
	t.Helper()
	out := &world{t: t, dir: t.TempDir(), agent: w.agent, limit: -1, one: w.one}
	if err := os.CopyFS(out.dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

// upgradeTo is like kubernetes, with a kubelet that may be broken.
func (w *world) upgradeTo(version string, broken bool) {
	w.t.Helper()
	w.ends = broken
	w.kubernetes(version)
	w.ends = false
}

// kept returns a snapshot without what belongs to runs or to processes.
func kept(s map[string]string) map[string]string {
	out := maps.Clone(s)
	own := filepath.FromSlash("C/ProgramData/nodejoin")
	for k := range s {
		if strings.HasPrefix(k, own+string(filepath.Separator)) &&
			(strings.HasSuffix(k, ".json") || strings.Contains(k, "previous")) ||
			strings.Contains(k, filepath.FromSlash("var/log/")) {
			delete(out, k)
		}
	}
	delete(out, filepath.Join(own, "previous"))
	out["state: services"] = processes.ReplaceAllString(out["state: services"], "")
	if access := ownAccess.ReplaceAllString(out["state: access"], ""); strings.Contains(access, "private") {
		out["state: access"] = access
	} else {
		delete(out, "state: access")
	}
	return out
}

// ownAccess is the state of the access of nodejoin's own folder.
var ownAccess = regexp.MustCompile(` "c/programdata/nodejoin[^,\n]*,?\n`)

// processes are the parts of a service's state that describe its process.
var processes = regexp.MustCompile(`"(pid|PID)": [0-9]+`)

// mustBeBack checks that the machine is as it was, its Node Ready with the old version, and no snapshot left.
func (w *world) mustBeBack(sum *engine.Summary, before map[string]string) {
	w.t.Helper()
	h := sum.Hosts[0]
	if h.Rollback == nil || h.Rollback.Err != nil || h.Rollback.Version != "1.35.4" || len(h.Rollback.Left) > 0 {
		w.t.Fatalf("failed at %s: %v; rolled back: %+v", h.Failed, h.Err, h.Rollback)
	}
	w.wantVersion("win-1", "1.35.4")
	_, dir := w.box()
	if diff := cmp.Diff(before, kept(snapshot(w.t, dir))); diff != "" {
		w.t.Fatalf("the machine is not as it was (-before +after):\n%s", diff)
	}
	if r := w.check(); r.Hosts[0].Snapshot != nil {
		w.t.Errorf("a snapshot is open: %+v", r.Hosts[0].Snapshot)
	}
	left, err := os.ReadDir(filepath.Join(dir, "C", "ProgramData", "nodejoin", "previous"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Error(err)
	}
	for _, f := range left { // earlier contents of others' files stay for the leave
		b, _ := os.ReadFile(filepath.Join(dir, "C", "ProgramData", "nodejoin", "previous", f.Name()))
		if string(b) != "theirs" {
			w.t.Errorf("kept and not removed: %.60q", b)
		}
	}
}

// TestUpgradeRolledBack: an upgrade to a kubelet that does not run is rolled back with everything that the run
// changed. The upgrade with a working kubelet succeeds.
func TestUpgradeRolledBack(t *testing.T) {
	w, before := upgradable(t, true)
	_, sum := w.apply(-1)
	if h := sum.Hosts[0]; h.Failed != "kubelet" || !strings.Contains(h.Err.Error(), "ended by itself") {
		t.Errorf("failed at %s: %v", h.Failed, h.Err)
	}
	w.mustBeBack(sum, before)
	if pods, err := w.cluster().Pods(t.Context(), "win-1"); err != nil || len(pods) != 1 {
		t.Errorf("pods %v, %v; want the one of the DaemonSet", pods, err)
	}
	// A second run ends in the same way.
	_, sum = w.apply(-1)
	w.mustBeBack(sum, before)
	w.upgradeTo("1.36.3", false)
	w.mustConverge()
	w.wantVersion("win-1", "1.36.3")
	w.mustBeQuiet()
}

// TestRolledBackAfterAKill: an upgrade that cannot work is killed anywhere, also during its rollback. The next run
// rolls back everything, whichever run changed it.
func TestRolledBackAfterAKill(t *testing.T) {
	first, before := upgradable(t, true)
	w := first.copy(t)
	w.apply(-1)
	total := w.calls.Load()
	if total < 40 {
		t.Fatalf("the upgrade and its rollback made only %d mutating calls", total)
	}
	step := int64(3)
	if testing.Short() {
		step = 11
	}
	for n := int64(0); n < total; n += step {
		t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
			t.Parallel()
			w := first.copy(t)
			w.apply(n)
			_, sum := w.apply(-1)
			w.mustBeBack(sum, before)
		})
	}
}

// TestRollbackAnswerLost: the reply to a rollback is lost after the machine is restored. The run asks again and
// succeeds.
func TestRollbackAnswerLost(t *testing.T) {
	w, before := failsLate(t)
	w.lostRollbacks = 2
	_, sum := w.apply(-1)
	w.mustBeBack(sum, before)
	w.wantLabels(map[string]string{"zone": "one"})
}

// cutOff runs an apply whose failure is rolled back. The connection is lost with the reply and works again after the
// run.
func (w *world) cutOff() {
	w.t.Helper()
	w.lostRollbacks, w.cut = 1, true
	_, sum := w.apply(-1)
	if b := sum.Hosts[0].Rollback; b == nil || b.Failed != "rollback" || !strings.Contains(b.String(), "no answer") {
		w.t.Fatalf("failed at %s: %v; rolled back: %+v", sum.Hosts[0].Failed, sum.Hosts[0].Err, b)
	}
	w.away = false
	if r := w.check(); r.Hosts[0].Snapshot == nil || r.Hosts[0].Snapshot.RolledBack == nil || r.Pending() == 0 {
		w.t.Fatalf("the snapshot is %+v, %d pending", r.Hosts[0].Snapshot, r.Pending())
	}
}

// earlier returns what was reported about an earlier run that was rolled back.
func (w *world) earlier() (reported []string) {
	for _, e := range w.events {
		if m, ok := e.(event.Warning); ok && m.Summary == "an earlier run was rolled back" {
			reported = append(reported, m.Detail)
		}
	}
	return reported
}

// rollbackCutOff: the connection is lost before the reply, and the run says so. The next run finds that the machine
// works, restores the rest, reports it and continues.
func TestRollbackCutOff(t *testing.T) { synctest.Test(t, rollbackCutOff) }

func rollbackCutOff(t *testing.T) {
	w, before := failsLate(t)
	w.heard = func(e event.Event) {
		if s, ok := e.(event.StepStarted); ok && s.Step == "rollback" {
			time.Sleep(time.Second) // the bubble's clock; otherwise all reports of the kubelet have the same time
		}
	}
	w.cutOff()
	w.wantLabels(map[string]string{"zone": "two", "tier": "new"}) // from the plan that failed
	_, sum := w.apply(-1)
	w.mustBeBack(sum, before)
	w.wantLabels(map[string]string{"zone": "one"})
	if told := w.earlier(); len(told) != 1 || !strings.Contains(told[0], "its Node is Ready again with 1.35.4") {
		t.Errorf("reported: %q", told)
	}
	w.edit(regexp.QuoteMeta(bad), "")
	w.mustConverge()
	w.wantVersion("win-1", "1.36.3")
	w.wantLabels(map[string]string{"zone": "two", "tier": "new"})
	w.mustBeQuiet()
}

// firstJoinCutOff: the same for a first join. The Node that it left is deleted before the next run begins.
func TestFirstJoinCutOff(t *testing.T) { synctest.Test(t, firstJoinCutOff) }

func firstJoinCutOff(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.edit(`(?m)^  profile  = profile.windows$`, "  profile  = profile.windows\n  on_failure = \"rollback\"")
	w.broken = map[string]string{"kube-proxy.exe": "exit 3"}
	w.cutOff()
	if _, err := w.cluster().Node(t.Context(), "win-1"); err != nil {
		t.Fatal(err)
	}
	begun := false
	w.heard = func(e event.Event) {
		if s, ok := e.(event.StepStarted); ok && s.Step == "containerd_files" {
			begun = true
			if n, err := w.cluster().Node(t.Context(), "win-1"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the Node of the earlier run is %+v, %v", n, err)
			}
		}
	}
	w.broken = nil
	w.mustConverge()
	if told := w.earlier(); len(told) != 1 || !begun {
		t.Errorf("reported: %q; begun: %v", told, begun)
	}
	w.mustBeQuiet()
}

// wantLabels checks the plan's labels on the one Node, its taint, and the note about them.
func (w *world) wantLabels(want map[string]string) {
	w.t.Helper()
	n, err := w.cluster().Node(w.t.Context(), "win-1")
	if err != nil {
		w.t.Fatal(err)
	}
	have := map[string]string{}
	for _, k := range []string{"zone", "tier"} {
		if v, ok := n.Labels[k]; ok {
			have[k] = v
		}
	}
	var noted map[string]string
	if err := json.Unmarshal([]byte(n.Annotations[kube.LabelsOf]), &noted); err != nil {
		w.t.Error(err)
	}
	taint := kube.Taint{Key: "zone", Value: want["zone"], Effect: "PreferNoSchedule"}
	if d := cmp.Diff(want, have); d != "" || !slices.Contains(n.Taints, taint) ||
		!strings.Contains(n.Annotations[kube.TaintsOf], want["zone"]) || noted["zone"] != want["zone"] ||
		noted["tier"] != want["tier"] {
		w.t.Errorf("labels (-want +have):\n%s\ntaints %v, notes %v", d, n.Taints, n.Annotations)
	}
}

// TestUpgradeKept: with on_failure = "keep" a failed upgrade stays as it is for the next apply.
func TestUpgradeKept(t *testing.T) {
	w, _ := upgradable(t, true)
	w.edit(`(?m)^  profile  = profile.windows$`, "  profile  = profile.windows\n  on_failure = \"keep\"")
	_, sum := w.apply(-1)
	h := sum.Hosts[0]
	if h.Failed != "kubelet" || h.Rollback != nil {
		t.Errorf("failed at %s: %v; %+v", h.Failed, h.Err, h.Rollback)
	}
	if n, err := w.cluster().Node(t.Context(), "win-1"); err != nil || n.Ready || !n.Unschedulable {
		t.Errorf("the Node is %+v, %v", n, err)
	}
	w.upgradeTo("1.36.3", false)
	w.mustConverge()
	w.wantVersion("win-1", "1.36.3")
}

// TestNotRolledBackNeedlessly: an interrupted run is not a failed upgrade. Its changes stay, and the next apply
// continues.
func TestNotRolledBackNeedlessly(t *testing.T) {
	w, _ := upgradable(t, false)
	w.before = func(req executor.Request) {
		if req.Steps[0].ID == "kubernetes_node" || len(req.Steps) > 1 && req.Steps[1].ID == "kubernetes_node" {
			w.cancel()
		}
	}
	_, sum := w.apply(-1)
	if h := sum.Hosts[0]; h.Rollback != nil || steps.AsError(h.Err).Code != steps.CodeInterrupted {
		t.Errorf("failed at %s: %v; %+v", h.Failed, h.Err, h.Rollback)
	}
	w.before = nil
	if n, err := w.cluster().Node(t.Context(), "win-1"); err != nil || !n.Unschedulable {
		t.Errorf("the Node is %+v, %v", n, err)
	}
	w.mustConverge()
	w.wantVersion("win-1", "1.36.3")
	if r := w.check(); r.Hosts[0].Snapshot != nil || r.Pending() > 0 {
		t.Errorf("%d pending, snapshot %+v", r.Pending(), r.Hosts[0].Snapshot)
	}
}

// TestFirstJoinRolledBack: if the plan says so, a first join that fails leaves the machine as it was, and no Node.
func TestFirstJoinRolledBack(t *testing.T) {
	for _, ends := range []string{"kube-proxy", "kubelet"} {
		t.Run(ends, func(t *testing.T) {
			w := newWorld(t)
			w.one = true
			w.edit(`(?m)^  profile  = profile.windows$`, "  profile  = profile.windows\n  on_failure = \"rollback\"")
			h, dir := w.box()
			seed(t, h)
			before := kept(snapshot(t, dir))
			w.broken = map[string]string{ends + ".exe": "exit 3"}
			_, sum := w.apply(-1)
			r := sum.Hosts[0]
			if r.Rollback == nil || r.Rollback.Err != nil || r.Rollback.Version != "" || len(r.Rollback.Left) > 0 {
				t.Fatalf("failed at %s: %v; rolled back: %+v", r.Failed, r.Err, r.Rollback)
			}
			after := kept(snapshot(t, dir))
			for _, k := range []string{"C/ProgramData/nodejoin", "C/ProgramData/nodejoin/bin"} {
				delete(after, filepath.FromSlash(k)) // nodejoin's own folder stays
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
			}
			if n, err := w.cluster().Node(t.Context(), "win-1"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the Node is %+v, %v", n, err)
			}
			if tokens, err := w.cluster().BootstrapTokens(t.Context(), "win-1"); err != nil || len(tokens) > 0 {
				t.Errorf("%d tokens are left, %v", len(tokens), err)
			}
			w.broken = nil
			w.mustConverge()
			w.mustBeQuiet()
			if _, left := w.leave(-1, engine.LeaveOptions{}); left.Hosts[0].Err != nil {
				t.Fatal(left.Hosts[0].Err)
			}
			if diff := cmp.Diff(before, kept(snapshot(t, dir))); diff != "" {
				t.Errorf("after the leave (-before +after):\n%s", diff)
			}
		})
	}
}

// TestNoHalfNodeTakesPods: a Node that has registered but is not verified yet has a taint that keeps pods away. It is
// removed once everything is verified.
func TestNoHalfNodeTakesPods(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.broken = map[string]string{"kube-proxy.exe": "exit 3"}
	_, sum := w.apply(-1)
	if h := sum.Hosts[0]; h.Failed != "kube_proxy" || h.Rollback != nil {
		t.Fatalf("failed at %s: %v; rolled back: %+v", h.Failed, h.Err, h.Rollback)
	}
	if n, err := w.cluster().Node(t.Context(), "win-1"); err != nil || !slices.Contains(n.Taints, kube.Joining) {
		t.Errorf("taints %v, %v", n.Taints, err)
	}
	w.broken = nil
	w.mustConverge()
	if n, err := w.cluster().Node(t.Context(), "win-1"); err != nil || slices.Contains(n.Taints, kube.Joining) ||
		len(n.Taints) != 1 {
		t.Errorf("taints %v, %v", n.Taints, err)
	}
	w.mustBeQuiet()
}

// TestNothingIsRolledBackOnceJoined: a run that is interrupted after its Node accepts pods has verified it. A later
// failure rolls nothing back.
func TestNothingIsRolledBackOnceJoined(t *testing.T) {
	w, _ := upgradable(t, false)
	w.heard = func(e event.Event) {
		if d, ok := e.(event.StepDone); ok && d.Step == "joined" {
			w.cancel()
		}
	}
	w.apply(-1)
	w.heard = nil
	w.add("\nstep \"file\" \"bad\" {\n  on      = node.win\n  path    = \"C:\\\\own\\\\late.txt\\\\x\"\n  content = " +
		"\"x\"\n}\n")
	_, sum := w.apply(-1)
	if h := sum.Hosts[0]; h.Err == nil || h.Rollback != nil {
		t.Errorf("error %v, rolled back %+v", h.Err, h.Rollback)
	}
	n, err := w.cluster().Node(t.Context(), "win-1")
	if err != nil || n.KubeletVersion != "v1.36.3" || !n.Ready || n.Unschedulable {
		t.Errorf("the Node is %+v, %v", n, err)
	}
}
