package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/engine"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

const leaseOfDemo = "nodejoin-demo"

// shardOf is a world of the same plan and machines, for a run of its own over the nodes that it names.
func (w *world) shardOf(shard string, nodes ...string) *world {
	out := &world{t: w.t, dir: w.dir, agent: w.agent, limit: -1, parallel: 8, shard: shard, group: "test",
		holder: steps.LockHolder{Run: "run-of-" + shard, Command: "apply", Since: time.Now()}}
	for _, n := range w.compile().Nodes {
		if !slices.Contains(nodes, n.Name) {
			out.skip = append(out.skip, n.Name)
		}
	}
	return out
}

// lease takes a Lease as another run has it, which ends after left.
func (w *world) lease(name, holder, note string, left time.Duration) {
	w.t.Helper()
	l := kube.Lease{Name: name, Holder: holder, Note: note, Duration: 2 * time.Minute,
		Renewed: time.Now().Add(left - 2*time.Minute)}
	if _, err := w.cluster().TakeLease(w.t.Context(), l, ""); err != nil {
		w.t.Fatal(err)
	}
}

func (k killableCluster) TakeLease(ctx context.Context, want kube.Lease, from string) (kube.Lease, error) {
	k.w.leasesTried.Store(want.Name, true)
	return k.API.TakeLease(ctx, want, from)
}

func (k killableCluster) ReleaseLease(ctx context.Context, name, holder string) error {
	if k.w.unreleased != "" && strings.Contains(name, k.w.unreleased) {
		return errKilled
	}
	return k.API.ReleaseLease(ctx, name, holder)
}

// Nodes counts, as each of these requests gets all Nodes of the cluster.
func (k killableCluster) Nodes(ctx context.Context) ([]kube.Node, error) {
	k.w.nodesListed.Add(1)
	return k.API.Nodes(ctx)
}

func (w *world) leases() (names []string) {
	w.t.Helper()
	list, err := w.cluster().Leases(w.t.Context(), leaseOfDemo)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range list {
		names = append(names, l.Name)
	}
	return names
}

// TestShardsKeepToOneRollout: runs of three shards at the same time never take more Nodes out of service than the
// rollout allows, and all come to their end.
func TestShardsKeepToOneRollout(t *testing.T) {
	w := fleet(t, 9, "\nrollout {\n  max_unavailable = 2\n}\n")
	most := w.watch(t.Context())
	var wait sync.WaitGroup
	for i := range 3 {
		s := w.shardOf(fmt.Sprintf("%d/3", i+1), nodeName(i), nodeName(3+i), nodeName(6+i))
		s.heard = w.heard
		wait.Go(func() {
			_, sum := s.apply(-1)
			for _, h := range sum.Hosts {
				if h.Err != nil || h.Held != "" {
					t.Errorf("%s: %v %s", h.Node, h.Err, h.Held)
				}
			}
		})
	}
	wait.Wait()
	if out := most(); len(out) > 2 || len(out) == 0 {
		t.Errorf("out of service at once: %v", out)
	}
	if v := w.versions(t.Context()); v["v1.36.3"] != 9 {
		t.Errorf("versions: %v", v)
	}
	if have := w.leases(); len(have) > 0 {
		t.Errorf("Leases after the runs: %v", have)
	}
}

// TestTurnsListNoNodes: what a run of a shard asks for does not grow with the Nodes of the cluster for each host.
func TestTurnsListNoNodes(t *testing.T) {
	w := fleet(t, 12, "\nrollout {\n  max_unavailable = 2\n}\n")
	var names []string
	for i := range 12 {
		names = append(names, nodeName(i))
	}
	s := w.shardOf("1/1", names...)
	_, sum := s.apply(-1)
	for _, h := range sum.Hosts {
		if h.Err != nil || h.Held != "" || len(h.Changed) == 0 {
			t.Errorf("%s: %v %s %v", h.Node, h.Err, h.Held, h.Changed)
		}
	}
	if n := s.nodesListed.Load(); n > 2 {
		t.Errorf("the Nodes were listed %d times for 12 hosts", n)
	}
}

// TestSlotOfADeadShard: a run waits for the slot of another, and takes it when the Lease has ended.
func TestSlotOfADeadShard(t *testing.T) {
	w := fleet(t, 2, "")
	w.lease(leaseOfDemo+".slot-0", "a run that died", nodeName(1), 1500*time.Millisecond)
	s := w.shardOf("1/2", nodeName(0))
	waited := ""
	s.heard = func(e event.Event) {
		if h, ok := e.(event.HostState); ok && h.State == "waiting" {
			waited = h.Detail
		}
	}
	_, sum := s.apply(-1)
	if h := sum.Hosts[0]; h.Err != nil || h.Held != "" {
		t.Errorf("%v %s", h.Err, h.Held)
	}
	if want := "all slots of the rollout are taken: " + nodeName(1); waited != want {
		t.Errorf("waited for %q, want %q", waited, want)
	}
}

// TestSlotOfTheNodeItself: the next run of a shard need not wait until the slots of one that was killed have ended: a
// node takes over the slot that stands for it already. If a run with that slot still has the Lease of a shard, it does
// not.
func TestSlotOfTheNodeItself(t *testing.T) {
	w := fleet(t, 3, "")
	w.lease(leaseOfDemo+".slot-0", "killed "+nodeName(0), nodeName(0), time.Minute)
	s := w.shardOf("1/2", nodeName(0))
	s.bound = 20 * time.Second
	_, sum := s.apply(-1)
	if h := sum.Hosts[0]; h.Err != nil || h.Held != "" {
		t.Errorf("%v %s", h.Err, h.Held)
	}
	if have := w.leases(); len(have) > 0 {
		t.Errorf("Leases after the run: %v", have)
	}

	// Its own, which it could not release.
	s = w.shardOf("1/2", nodeName(2))
	w.lease(leaseOfDemo+".slot-0", s.holder.Run+" "+nodeName(2), nodeName(2), time.Minute)
	s.bound = 20 * time.Second
	_, sum = s.apply(-1)
	if h := sum.Hosts[0]; h.Err != nil || h.Held != "" || len(w.leases()) > 0 {
		t.Errorf("with its own slot: %v %s; Leases: %v", h.Err, h.Held, w.leases())
	}

	w.lease(leaseOfDemo+".slot-0", "alive "+nodeName(1), nodeName(1), time.Minute)
	w.lease(leaseOfDemo+".shard-3-of-7", "alive", "", time.Minute) // it divides the nodes in another way
	s = w.shardOf("1/2", nodeName(1))
	s.bound = 2 * time.Second
	_, sum = s.apply(-1)
	if h := sum.Hosts[0]; h.Err == nil || !slices.Contains(w.leases(), leaseOfDemo+".slot-0") {
		t.Errorf("%v; Leases: %v", h.Err, w.leases())
	}
}

// turn takes the turn of the shard's only node, whose apply does not begin yet.
func (w *world) turn() (end func(engine.TurnEnd)) {
	w.t.Helper()
	s := w.session(w.compile())
	w.t.Cleanup(s.Close)
	ended, why, err := s.Turn(w.t.Context(), func() string { return "" })
	if err != nil || why != "" {
		w.t.Fatalf("%s has no turn: %q, %v", w.shard, why, err)
	}
	return func(e engine.TurnEnd) {
		if err := ended(w.t.Context(), e); err != nil {
			w.t.Errorf("the end of the turn of %s: %v", w.shard, err)
		}
	}
}

// TestSlotOfAFollower: the slot that a follower has taken before its apply begins is no other run's, whether there are
// further slots or not. The next run of that follower need not wait for it.
func TestSlotOfAFollower(t *testing.T) {
	for _, limit := range []int{1, 2} {
		t.Run(fmt.Sprintf("max_unavailable=%d", limit), func(t *testing.T) {
			w := fleet(t, 2, fmt.Sprintf("\nrollout {\n  max_unavailable = %d\n}\n", limit))
			follower := w.shardOf("follow-"+nodeName(0), nodeName(0))
			end := follower.turn()
			before, err := w.cluster().Leases(t.Context(), leaseOfDemo)
			if err != nil || len(before) != 1 {
				t.Fatalf("Leases: %v, %v", before, err)
			}
			s := w.shardOf("1/2", nodeName(0))
			waited := ""
			s.heard = func(e event.Event) {
				if h, ok := e.(event.HostState); ok && h.State == "waiting" && waited == "" {
					waited = h.Detail
				}
			}
			s.bound = 2 * time.Second
			if _, sum := s.apply(-1); sum.Hosts[0].Err == nil || len(sum.Hosts[0].Changed) > 0 {
				t.Errorf("a run beside the follower: %v, changed %v", sum.Hosts[0].Err, sum.Hosts[0].Changed)
			}
			if want := "another run has taken a slot of the rollout for the Node"; waited != want {
				t.Errorf("waited for %q, want %q", waited, want)
			}
			after, err := w.cluster().Leases(t.Context(), leaseOfDemo)
			if err != nil || len(after) != 1 || after[0].Holder != before[0].Holder {
				t.Errorf("Leases: %v, before %v; %v", after, before, err)
			}

			next := w.shardOf("follow-"+nodeName(0), nodeName(0)) // the one before was killed
			next.holder.Run = "the next run"
			next.turn()(engine.TurnUnused)
			end(engine.TurnUnused)
			s.bound = 20 * time.Second
			if _, sum := s.apply(-1); sum.Hosts[0].Err != nil || sum.Hosts[0].Held != "" {
				t.Errorf("after the follower: %v %s", sum.Hosts[0].Err, sum.Hosts[0].Held)
			}
		})
	}
}

// TestTakenSlotsAreNotTried: a run tries only free slots, so that a rollout with many slots costs the API server no
// request for each of them.
func TestTakenSlotsAreNotTried(t *testing.T) {
	w := fleet(t, 2, "\nrollout {\n  max_unavailable = 9\n}\n")
	for i := range 8 {
		w.lease(fmt.Sprintf("%s.slot-%d", leaseOfDemo, i), "another", "another", time.Minute)
	}
	s := w.shardOf("1/2", nodeName(0))
	_, sum := s.apply(-1)
	if h := sum.Hosts[0]; h.Err != nil || h.Held != "" {
		t.Errorf("%v %s", h.Err, h.Held)
	}
	for i, want := range []bool{7: false, 8: true} {
		if _, tried := s.leasesTried.Load(fmt.Sprintf("%s.slot-%d", leaseOfDemo, i)); tried != want {
			t.Errorf("slot %d was tried: %v", i, tried)
		}
	}
}

// TestNodesOutOfOtherShards: a Node that another shard has left out of service counts, and is named.
func TestNodesOutOfOtherShards(t *testing.T) {
	w := fleet(t, 2, "")
	if err := w.cluster().Cordon(t.Context(), nodeName(1), "upgrade"); err != nil {
		t.Fatal(err)
	}
	_, sum := w.shardOf("1/2", nodeName(0)).apply(-1)
	if want := "the rollout may have 1 Node out of service, and n-01 is out already"; sum.Hosts[0].Held != want {
		t.Errorf("held: %q, want %q", sum.Hosts[0].Held, want)
	}
	_, sum = w.shardOf("2/2", nodeName(1)).apply(-1) // it may come back
	if h := sum.Hosts[0]; h.Err != nil || h.Held != "" {
		t.Errorf("%v %s", h.Err, h.Held)
	}
}

// TestFailuresOfOtherShards: a failure stops the shards of its group, until the machine works. Those of another group
// do not know of it.
func TestFailuresOfOtherShards(t *testing.T) {
	w := fleet(t, 3, "\nrollout {\n  max_unavailable = 3\n}\n")
	w.breakKubelets(nodeName(1))
	held := func(s *world) string {
		t.Helper()
		_, sum := s.apply(-1)
		if err := sum.Hosts[0].Err; err != nil {
			t.Logf("%s: %v", sum.Hosts[0].Node, err)
		}
		return sum.Hosts[0].Held
	}
	if why := held(w.shardOf("2/3", nodeName(1))); why != "" {
		t.Fatalf("held: %s", why)
	}
	if why := held(w.shardOf("1/3", nodeName(0))); why != "the rollout stopped after 1 failure (n-01)" {
		t.Errorf("held: %q", why)
	}
	other := w.shardOf("1/3", nodeName(0))
	other.group = "another"
	if why := held(other); why != "" {
		t.Errorf("another group: held: %s", why)
	}
	w.breakKubelets()
	w.lease(leaseOfDemo+".failed-"+nodeName(2), "test", nodeName(2), -time.Second) // long ago
	if why := held(w.shardOf("3/3", nodeName(2))); why != "the rollout stopped after 1 failure (n-01)" {
		t.Errorf("held: %q", why)
	}
	if why := held(w.shardOf("2/3", nodeName(1))); why != "" {
		t.Errorf("the machine that works again: held: %s", why)
	}
	if why := held(w.shardOf("3/3", nodeName(2))); why != "" {
		t.Errorf("held: %s", why)
	}
}

// TestFailureThatStays: where the failure of a machine that works again stays in the cluster, the run says so.
func TestFailureThatStays(t *testing.T) {
	w := fleet(t, 1, "")
	w.breakKubelets(nodeName(0))
	if _, sum := w.shardOf("1/1", nodeName(0)).apply(-1); sum.Hosts[0].Err == nil {
		t.Fatal("a broken kubelet is no failure")
	}
	w.breakKubelets()
	s := w.shardOf("1/1", nodeName(0))
	s.unreleased = ".failed-"
	if _, sum := s.apply(-1); sum.Hosts[0].Err != nil {
		t.Fatal(sum.Hosts[0].Err)
	}
	want := event.Warning{Host: nodeName(0), Summary: "the other shards still count the node as failed",
		Detail: errKilled.Error()}
	if !slices.ContainsFunc(s.events, func(e event.Event) bool { return e == want }) {
		t.Errorf("no warning %+v in %+v", want, s.events)
	}
}

// TestLeasesThatHaveRunOut: the next run removes what earlier ones have left, not what is another plan's or in use.
func TestLeasesThatHaveRunOut(t *testing.T) {
	w := fleet(t, 2, "")
	w.lease(leaseOfDemo+".slot-7", "a run that died", nodeName(1), -time.Second)
	w.lease(leaseOfDemo+".failed-"+nodeName(0), "an earlier group", nodeName(0), -time.Second)
	w.lease(leaseOfDemo+".failed-gone", "an earlier group", "gone", -time.Second)
	w.lease(leaseOfDemo+".failed-"+nodeName(1), "another group", nodeName(1), time.Minute)
	w.lease(leaseOfDemo+"-b.failed-"+nodeName(1), "another plan", nodeName(1), -time.Second)
	_, sum := w.shardOf("1/2", nodeName(0)).apply(-1)
	if h := sum.Hosts[0]; h.Err != nil || h.Held != "" {
		t.Errorf("%v %s", h.Err, h.Held)
	}
	want := []string{leaseOfDemo + "-b.failed-" + nodeName(1), leaseOfDemo + ".failed-" + nodeName(1)}
	if have := w.leases(); !slices.Equal(have, want) {
		t.Errorf("Leases: %v, want %v", have, want)
	}
}

// TestShardBesideWholePlan: a run over the whole plan and one over a shard keep each other off.
func TestShardBesideWholePlan(t *testing.T) {
	w := newWorld(t)
	locked := func(w *world) bool {
		t.Helper()
		_, sum := w.apply(-1)
		err := sum.Hosts[0].Err
		return err != nil && steps.AsError(err).Code == steps.CodeLocked &&
			strings.Contains(steps.AsError(err).Detail+steps.AsError(err).Summary, "Lease kube-system/"+leaseOfDemo)
	}
	shard := w.shardOf("1/2", "win-1")
	w.lease(leaseOfDemo, "another", "", time.Minute)
	if !locked(shard) {
		t.Error("a shard begins beside a run over the whole plan")
	}
	if err := w.cluster().ReleaseLease(t.Context(), leaseOfDemo, "another"); err != nil {
		t.Fatal(err)
	}
	w.lease(leaseOfDemo+".shard-2-of-2", "another", "", time.Minute)
	w.holder = steps.LockHolder{Run: "whole", Command: "apply", Since: time.Now()}
	if !locked(w) {
		t.Error("a run over the whole plan begins beside one over a shard")
	}
	if have := w.leases(); !slices.Equal(have, []string{leaseOfDemo + ".shard-2-of-2"}) {
		t.Errorf("Leases: %v", have)
	}
	if locked(shard) {
		t.Error("two shards keep each other off")
	}
}

// TestEnvironmentsHaveLeases: runs of two environments of a plan do not keep each other off.
func TestEnvironmentsHaveLeases(t *testing.T) {
	w := newWorld(t)
	w.one = true
	for _, name := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(w.dir, "env"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.dir, "env", name+".joinvars"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.lease("nodejoin-a-demo", "another", "", time.Minute)
	w.holder = steps.LockHolder{Run: "mine", Command: "apply", Since: time.Now()}
	w.environment = "a"
	_, sum := w.apply(-1)
	if err := sum.Hosts[0].Err; err == nil || steps.AsError(err).Code != steps.CodeLocked {
		t.Errorf("the same environment: %v", err)
	}
	w.environment = "b"
	seen := map[string]bool{}
	w.heard = func(event.Event) {
		list, err := w.cluster().Leases(t.Context(), "nodejoin-")
		if err != nil {
			t.Error(err)
		}
		for _, l := range list {
			seen[l.Name+" "+l.Holder] = true
		}
	}
	_, sum = w.apply(-1)
	if err := sum.Hosts[0].Err; err != nil {
		t.Errorf("the other environment: %v", err)
	}
	if !seen["nodejoin-a-demo another"] || !seen["nodejoin-b-demo mine"] || len(seen) != 2 {
		t.Errorf("Leases: %v", seen)
	}
}
