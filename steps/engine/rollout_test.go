package engine_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
)

// fleet returns a world with joined nodes of 1.35.4 whose plan asks for 1.36.3. The kubelets of the nodes in broken no
// longer start.
func fleet(t *testing.T, nodes int, rollout string) *world {
	t.Helper()
	w := newWorld(t)
	var hosts []string
	for i := range nodes {
		hosts = append(hosts, fmt.Sprintf("%q = \"192.0.2.%d\"", nodeName(i), 11+i))
	}
	w.edit(`(?m)^  for_each = .*$`, "  for_each = { "+strings.Join(hosts, ", ")+" }")
	w.add(rollout)
	w.parallel = 8
	w.kubernetes("1.35.4")
	w.mustConverge()
	w.kubernetes("1.36.3")
	return w
}

func nodeName(i int) string { return fmt.Sprintf("n-%02d", i) }

// breakKubelets makes the kubelets of these nodes exit as soon as they are started.
func (w *world) breakKubelets(names ...string) {
	w.t.Helper()
	for _, n := range w.compile().Nodes {
		file := filepath.Join(n.Connection.Sandbox.Path, ".sandbox", "broken.json")
		text := "{}"
		if slices.Contains(names, n.Name) {
			text = `{"kubelet.exe": "exit 3"}`
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

// watch counts the Nodes that are out of service in the cluster at each event of the following runs. most returns the
// highest number and the nodes.
func (w *world) watch(ctx context.Context) (most func() []string) {
	api := w.cluster()
	var mu sync.Mutex
	var worst []string
	w.heard = func(e event.Event) {
		d, ok := e.(event.StepDone)
		if !ok || d.Result == "unchanged" {
			return
		}
		nodes, err := api.Nodes(ctx)
		if err != nil {
			w.t.Error(err)
			return
		}
		var out []string
		for _, n := range nodes {
			if !n.Ready || n.Unschedulable {
				out = append(out, n.Name)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(out) > len(worst) {
			worst = out
		}
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return worst
	}
}

// versions counts the Nodes by kubelet version.
func (w *world) versions(ctx context.Context) map[string]int {
	w.t.Helper()
	nodes, err := w.cluster().Nodes(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]int{}
	for _, n := range nodes {
		out[n.KubeletVersion]++
	}
	return out
}

// begun returns the hosts that a run began with, and those that failed.
func begun(sum *engine.Summary) (worked, failed []string, held string) {
	for _, h := range sum.Hosts {
		switch {
		case h.Held != "":
			held = h.Held
		case h.Err != nil:
			failed = append(failed, h.Node)
			fallthrough
		default:
			worked = append(worked, h.Node)
		}
	}
	return worked, failed, held
}

// TestRollout upgrades twenty nodes, three at a time, of which two fail. Never more than three are out of service; the
// run stops after both have failed, and the next run continues. A failed node stays out of service, whether it is
// rolled back or not.
func TestRollout(t *testing.T) {
	for failing, nodes := range map[string]int{"keep": 20, "rollback": 13} {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			w := fleet(t, nodes, "\nrollout {\n  max_unavailable = 3\n  max_failures = 2\n}\n")
			if failing == "keep" {
				w.edit(`(?m)^  profile  = profile.windows$`, "  profile  = profile.windows\n  on_failure = \"keep\"")
			}
			w.breakKubelets(nodeName(4), nodeName(9))
			most := w.watch(t.Context())
			_, sum := w.apply(-1)
			worked, failed, held := begun(sum)
			if !slices.Equal(failed, []string{nodeName(4), nodeName(9)}) ||
				!strings.Contains(held, "stopped after 2 failures") {
				t.Fatalf("failed %v, held: %q", failed, held)
			}
			// They run in order: at most two are in progress beside the one that fails last.
			if n := len(worked); n < 10 || n > 12 || !slices.Equal(worked, names(n)) {
				t.Errorf("worked on %v", worked)
			}
			if out := most(); len(out) > 3 || len(out) < 2 {
				t.Errorf("out of service at once: %v", out)
			}
			have := w.versions(t.Context())
			if have["v1.36.3"] != len(worked)-2 || have["v1.36.3"]+have["v1.35.4"] != nodes {
				t.Errorf("versions %v after work on %d", have, len(worked))
			}
			// Both still fail and are out of service. They are tried first, and with two at a time no other node is.
			w.edit("max_unavailable = 3", "max_unavailable = 2")
			_, sum = w.apply(-1)
			w.edit("max_unavailable = 2", "max_unavailable = 3")
			worked, again, held := begun(sum)
			if len(again) != 2 || !strings.Contains(held, "stopped after 2 failures") {
				t.Errorf("worked on %v, failed %v, held: %q", worked, again, held)
			}
			// Without them the others continue; the two still count if they are out of service.
			w.skip = again
			w.mustConverge()
			w.skip = nil
			if have := w.versions(t.Context()); have["v1.36.3"] < nodes-2 {
				t.Errorf("versions %v after a run without those that fail", have)
			}
			w.breakKubelets()
			w.mustConverge()
			if out := most(); len(out) > 3 {
				t.Errorf("out of service at once: %v", out)
			}
			if have := w.versions(t.Context()); !maps.Equal(have, map[string]int{"v1.36.3": nodes}) {
				t.Errorf("versions %v", have)
			}
			w.heard = nil
			w.mustBeQuiet()
		})
	}
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, nodeName(i))
	}
	return out
}

// TestRolloutCountsOthers: Nodes that others have taken out of service count. If there are too many, the run adds none
// and names them. By default one node at a time is out of service.
func TestRolloutCountsOthers(t *testing.T) {
	w := fleet(t, 3, "")
	if err := w.cluster().SetUnschedulable(t.Context(), nodeName(2), true); err != nil {
		t.Fatal(err)
	}
	most := w.watch(t.Context())
	_, sum := w.apply(-1)
	worked, failed, held := begun(sum)
	if !slices.Equal(worked, []string{nodeName(2)}) || len(failed) > 0 ||
		!strings.Contains(held, "may have 1 Node out of service, and n-02 is out already") {
		t.Errorf("worked on %v, failed %v, held: %q", worked, failed, held)
	}
	if out := most(); len(out) != 1 {
		t.Errorf("out of service at once: %v", out)
	}
	if err := w.cluster().SetUnschedulable(t.Context(), nodeName(2), false); err != nil {
		t.Fatal(err)
	}
	w.mustConverge()
	if out := most(); len(out) != 1 {
		t.Errorf("out of service at once: %v", out)
	}
}

// TestRolloutIsForInterruptions: what interrupts no pods needs no turn: first joins, and changes that stop neither
// kubelet nor runtime.
func TestRolloutIsForInterruptions(t *testing.T) {
	w := newWorld(t)
	w.parallel = 2
	w.add("\nrollout {\n  max_unavailable = 1\n}\n")
	var mu sync.Mutex
	waiting := 0
	both := make(chan struct{})
	w.before = func(req executor.Request) {
		mu.Lock()
		if waiting++; waiting == 2 {
			close(both)
		}
		mu.Unlock()
		<-both // neither continues before the other has begun
	}
	w.mustConverge()
}
