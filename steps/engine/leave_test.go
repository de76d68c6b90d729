package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

func (k killableCluster) Cordon(ctx context.Context, node, why string) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.Cordon(ctx, node, why)
}

func (k killableCluster) Evict(ctx context.Context, p kube.Pod) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.Evict(ctx, p)
}

func (k killableCluster) DeleteNode(ctx context.Context, name, uid string) error {
	if err := k.w.killed(); err != nil {
		return err
	}
	return k.API.DeleteNode(ctx, name, uid)
}

// leave runs one complete leave, which is killed after limit mutating calls; negative means never.
func (w *world) leave(limit int64, o engine.LeaveOptions) (*engine.LeaveReport, *engine.LeaveSummary) {
	w.t.Helper()
	w.limit = limit
	w.calls.Store(0)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := w.session(w.compile())
	defer s.Close()
	r := s.CheckLeave(ctx, o)
	if n := w.calls.Load(); n != 0 {
		w.t.Errorf("the look at a leave made %d mutating calls", n)
	}
	return r, s.Leave(ctx, r, o)
}

// box opens the machine of the first node; cluster opens the cluster.
func (w *world) box() (*sandbox.Host, string) {
	w.t.Helper()
	s := w.known().Nodes[0].Connection.Sandbox
	h, err := sandbox.Open(context.Background(), sandbox.Config{Path: s.Path, IP: s.IP, Hostname: "win-1",
		ClusterDir: s.ClusterDir})
	if err != nil {
		w.t.Fatal(err)
	}
	return h, s.Path
}

func (w *world) cluster() *sandbox.Cluster {
	w.t.Helper()
	c := w.known().Cluster
	api, err := sandbox.OpenCluster(context.Background(), sandbox.ClusterConfig{Dir: c.Sandbox, PodCIDR: c.PodCIDR})
	if err != nil {
		w.t.Fatal(err)
	}
	return api
}

// seed creates things that are not nodejoin's, close to what a join changes.
func seed(t *testing.T, h *sandbox.Host) {
	t.Helper()
	ctx := t.Context()
	put := func(path string) error {
		return h.WriteFile(ctx, path, strings.NewReader("theirs"), host.WriteOptions{})
	}
	for _, err := range []error{
		put(`C:\ProgramData\theirs.txt`), put(`C:\theirs\svc.exe`), put(`C:\var\log\theirs.log`),
		put(`C:\var\lib\kubelet.txt`), put(`C:\etc\hosts`), put(`C:\opt\cni\bin\theirs.exe`),
		put(`C:\k\README.txt`), h.SetAccess(ctx, `C:\opt\cni\bin`, host.AccessDefault),
		h.CreateService(ctx, host.ServiceConfig{Name: "theirs", Command: []string{`C:\theirs\svc.exe`},
			Start: host.StartAuto}),
		h.StartService(ctx, "theirs"),
		h.SetRegistryValue(ctx, `HKLM\SOFTWARE\theirs`, "v", host.RegistryValue{Type: "dword", Number: 1}),
		h.SetMachineEnv(ctx, "THEIRS", "x"),
		h.PutFirewallRule(ctx, host.FirewallRule{Name: "theirs", Direction: "in", Action: "allow", Protocol: "tcp",
			Ports: "10250", Enabled: true}),
		h.PutHNSNetwork(ctx, host.HNSNetwork{ID: "1", Name: "nat", Type: "NAT"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot returns every file with its content, and all state that is not in files.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		switch {
		case err != nil:
			return err
		case rel == ".sandbox":
			return fs.SkipDir
		case d.IsDir():
			out[rel] = "folder"
			return nil
		}
		b, err := os.ReadFile(p)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, ".sandbox", "state.json"))
	var state map[string]any
	if err = errors.Join(err, json.Unmarshal(raw, &state)); err != nil {
		t.Fatal(err)
	}
	delete(state, "last_pid")
	for part, v := range state {
		b, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out["state: "+part] = string(b)
	}
	return out
}

// shim is the process that holds the containers of pods.
const shim = `C:\Program Files\containerd\containerd-shim-runhcs-v1.exe`

// TestLeaveOneCallAtATime: a leave that is killed after every mutating call, again and again, completes in the end.
// Then the machine is byte for byte what it was before the join, and the node can join again. Nothing that is not
// nodejoin's is ever changed.
func TestLeaveOneCallAtATime(t *testing.T) {
	w := newWorld(t)
	w.one = true
	h, dir := w.box()
	seed(t, h)
	before := snapshot(t, dir)
	w.mustConverge()
	// Drift: manual changes are undone, too.
	if err := h.StopService(t.Context(), "kube-proxy"); err != nil {
		t.Fatal(err)
	}
	w.mustConverge()
	api := w.cluster()
	for _, p := range []kube.Pod{{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		{Namespace: "kube-system", Name: "agent", Controller: "DaemonSet"}} {
		if err := api.AddPod(t.Context(), "win-1", p, ""); err != nil {
			t.Fatal(err)
		}
	}
	// The containers of pods survive kubelet and containerd, and use files that nodejoin made.
	for i, name := range []string{"web", "agent", "static"} {
		if err := h.PutPod(t.Context(), host.Pod{ID: fmt.Sprint(i), Namespace: "d", Name: name}, shim); err != nil {
			t.Fatal(err)
		}
	}
	const most = 400
	runs, last := 0, ""
	for done := false; !done; runs++ {
		if runs == most {
			t.Fatalf("not done after %d runs; the last one ended at %s", most, last)
		}
		r, sum := w.leave(1, engine.LeaveOptions{})
		if r.Hosts[0].Err != nil {
			t.Fatal(r.Hosts[0].Err)
		}
		err := sum.Hosts[0].Err
		last = fmt.Sprint(sum.Hosts[0].Failed, ": ", err)
		if done = err == nil; !done && !strings.Contains(err.Error(), errKilled.Error()) {
			t.Fatalf("run %d, %s: %v", runs, sum.Hosts[0].Failed, err)
		}
	}
	if runs < 50 {
		t.Errorf("only %d runs", runs)
	}
	if d := cmp.Diff(before, snapshot(t, dir)); d != "" {
		t.Errorf("the machine before the join (-) and after the leave (+):\n%s", d)
	}
	if _, err := api.Node(t.Context(), "win-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the Node: %v", err)
	}
	w.mustConverge()
	w.mustBeQuiet()
}

// TestUnfinishedLeaveIsNoted: a leave that is killed after its first change is noted as the machine's last run.
func TestUnfinishedLeaveIsNoted(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	if _, sum := w.leave(8, engine.LeaveOptions{}); sum.Hosts[0].Err == nil {
		t.Fatal("the leave was not killed")
	}
	s := w.session(w.compile())
	defer s.Close()
	w.limit = -1
	last := s.Check(t.Context()).Hosts[0].Last
	if !last.IsLeave() || last.Result == "done" {
		t.Errorf("the last run is %+v", last)
	}
	if _, sum := w.leave(-1, engine.LeaveOptions{}); sum.Hosts[0].Err != nil {
		t.Error(sum.Hosts[0].Err)
	}
}

// leaveError returns the error of a leave of the first node that changes nothing.
func (w *world) wantRefused(o engine.LeaveOptions, want string) {
	w.t.Helper()
	r, sum := w.leave(-1, o)
	err := sum.Hosts[0].Err
	if r.Cluster != nil {
		err = r.Cluster
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		w.t.Errorf("%v, want %q", err, want)
	}
	if n := w.calls.Load(); n != 0 {
		w.t.Errorf("%d mutating calls", n)
	}
}

// TestLeaveRefused: what prevents a leave is found before anything is changed.
func TestLeaveRefused(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	api := w.cluster()
	ctx := t.Context()
	if err := api.AddPod(ctx, "win-1", kube.Pod{Namespace: "d", Name: "bare"}, ""); err != nil {
		t.Fatal(err)
	}
	w.wantRefused(engine.LeaveOptions{}, "d/bare (no controller would recreate it)")
	if err := api.SetDown(ctx, true); err != nil {
		t.Fatal(err)
	}
	w.wantRefused(engine.LeaveOptions{}, "does not answer")
	if err := api.SetDown(ctx, false); err != nil {
		t.Fatal(err)
	}
	// A disruption budget blocks the leave: it gives up after its timeout without touching
	// the host, and the next leave continues.
	if err := errors.Join(api.AddPod(ctx, "win-1", kube.Pod{Namespace: "d", Name: "web", Controller: "ReplicaSet"},
		"web"), api.SetBudget(ctx, "web", 0)); err != nil {
		t.Fatal(err)
	}
	force := engine.LeaveOptions{Drain: kube.DrainOptions{Force: true, Timeout: 50 * time.Millisecond}}
	_, sum := w.leave(-1, force)
	if err := sum.Hosts[0].Err; err == nil || sum.Hosts[0].Failed != "drain" || !strings.Contains(err.Error(), "d/web") {
		t.Errorf("%s: %v, want the drain, held up by d/web", sum.Hosts[0].Failed, err)
	}
	h, _ := w.box()
	if svc, err := h.Service(ctx, "kubelet"); err != nil || svc.State != host.ServiceRunning {
		t.Errorf("kubelet is %q, %v", svc.State, err)
	}
	if n, err := api.Node(ctx, "win-1"); err != nil || !n.Unschedulable {
		t.Errorf("the Node is not cordoned: %v", err)
	}
	if err := api.SetBudget(ctx, "web", 1); err != nil {
		t.Fatal(err)
	}
	force.Drain.Timeout = 0 // the default
	if _, sum := w.leave(-1, force); sum.Hosts[0].Err != nil || !sum.Hosts[0].NodeGone {
		t.Error(fmt.Errorf("%s: %w", sum.Hosts[0].Failed, sum.Hosts[0].Err))
	}
}

// TestLeaveOfAnotherMachine: a Node object that belongs to another machine is not deleted.
func TestLeaveOfAnotherMachine(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	plan := filepath.Join(w.dir, "quickstart.join.hcl")
	b, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	ip := w.compile().Nodes[0].Connection.Sandbox.IP
	if err := os.WriteFile(plan, []byte(strings.ReplaceAll(string(b), ip, "192.0.2.99")), 0o644); err != nil {
		t.Fatal(err)
	}
	if w.compile().Nodes[0].Connection.Sandbox.IP == ip {
		t.Skip("the quickstart gives no address that can be changed")
	}
	w.wantRefused(engine.LeaveOptions{}, "another machine")
}

// TestLeaveRemovesParents: leave also removes the folders above nodejoin's own if nodejoin made them. The lock of a
// run makes them before there is a record.
func TestLeaveRemovesParents(t *testing.T) {
	w := newWorld(t)
	w.one = true
	_, dir := w.box()
	before := snapshot(t, dir)
	w.mustConverge()
	if _, sum := w.leave(-1, engine.LeaveOptions{}); sum.Hosts[0].Err != nil {
		t.Fatal(sum.Hosts[0].Err)
	}
	if d := cmp.Diff(before, snapshot(t, dir)); d != "" {
		t.Errorf("the machine before the join (-) and after the leave (+):\n%s", d)
	}
}
