package pull

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/steps/kube"
	"nodejoin/steps/waves"
)

// wantSaid checks that a node has said something once.
func (n *node) wantSaid(text string) {
	n.s.t.Helper()
	if all := strings.Join(n.said, "\n"); strings.Count(all, text) != 1 {
		n.s.t.Errorf("%s: said %s\nwant %q once", n.name, all, text)
	}
}

// TestFollowSaysTrouble: a slot that is lost in an apply, and a failure that the others do not know of, are said.
func TestFollowSaysTrouble(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		n := s.node("n")
		n.opens = func(context.Context, *File) (kube.API, error) {
			return faulty{API: s.cluster, take: ".failed-"}, nil
		}
		n.applies = func(ctx context.Context, _ []string) (int, firstboot.Outcome) {
			must(t, n.Prepare(ctx, n.plan()))
			list, err := s.cluster.Leases(ctx, slot)
			must(t, err)
			lost := kube.Lease{Name: slot, Note: "n", Holder: "another run", Duration: time.Minute, Renewed: time.Now()}
			_, err = s.cluster.TakeLease(ctx, lost, list[0].Holder)
			must(t, err)
			time.Sleep(30 * time.Second) // it is renewed meanwhile
			return 1, firstboot.Failed
		}
		if code := n.round(t.Context()); code != 1 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.wantSaid("the Lease in the cluster was lost: another run has it now: ")
		n.wantSaid("the other nodes do not know of the failure: no answer")

		n.said = nil
		n.rolledBack(func(*state) {})
		if code := n.round(t.Context()); code != 1 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.wantSaid("the other nodes do not know of the failure: no answer")
	})
}

// TestFollowStillFailed: a node that works again, and whose failure stays in the cluster, says so.
func TestFollowStillFailed(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		n := s.node("n")
		s.outcome["n"] = firstboot.Failed
		if code := n.round(t.Context()); code != 1 {
			t.Errorf("code %d: %q", code, n.said)
		}
		s.outcome["n"], n.said = firstboot.Finished, nil
		n.opens = func(context.Context, *File) (kube.API, error) {
			return faulty{API: s.cluster, release: ".failed-"}, nil
		}
		if code := n.round(t.Context()); code != 0 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.wantSaid("the other nodes still count this one as failed: no answer")
		n.want("True", "Applied", "release 1", 1, "first", "first")
	})
}

// rolledBack has the node note that its last apply was rolled back.
func (n *node) rolledBack(change func(*state)) {
	n.s.t.Helper()
	st, err := readState(n.statePath())
	must(n.s.t, err)
	st.RolledBack = Result{RolledBack, st.Serial, "it was rolled back"}
	change(&st)
	must(n.s.t, st.write(n.statePath()))
}

// TestFollowHoldsUpNoCluster: a node whose plan names no cluster notes its failure under the name of the plan.
func TestFollowHoldsUpNoCluster(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		n := s.node("n")
		s.outcome["n"] = firstboot.Waiting
		if code := n.round(t.Context()); code != 7 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.rolledBack(func(st *state) { st.Cluster = "" })
		if code := n.round(t.Context()); code != 1 {
			t.Errorf("code %d: %q", code, n.said)
		}
		list, err := s.cluster.Leases(t.Context(), "nodejoin-")
		if err != nil || len(list) != 1 || list[0].Name != "nodejoin-e-prod.failed-n" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestFollowBackInService: a node that is back in service after its wait counts as the others do.
func TestFollowBackInService(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		n, _ := s.node("n"), s.node("m")
		must(t, s.cluster.SetUnschedulable(t.Context(), "n", true))
		lease := kube.Lease{Name: slot, Note: "c", Holder: "run c", Duration: 10 * time.Minute, Renewed: time.Now()}
		_, err := s.cluster.TakeLease(t.Context(), lease, "")
		must(t, err)
		done := make(chan int)
		go func() { done <- n.round(t.Context()) }()
		time.Sleep(5 * time.Minute)
		must(t, s.cluster.SetUnschedulable(t.Context(), "n", false))
		must(t, s.cluster.SetUnschedulable(t.Context(), "m", true))
		if code := <-done; code != 0 {
			t.Errorf("code %d: %q", code, n.said)
		}
		n.want("False", "Waiting", "the rollout may have 1 Node out of service, and m is out already", 0)
	})
}

// TestFollowGivesBack: the place in a wave of a node that did not begin is another's.
func TestFollowGivesBack(t *testing.T) {
	for _, name := range []string{"locked", "key"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.rollout.MaxUnavailable = 1
			s.rollout.Limits = waves.Limits{Sizes: []int{1, 3}, Pause: 20 * time.Minute}
			synctest.Test(t, func(t *testing.T) {
				s.t = t
				s.publish(1, "first")
				a, b := s.node("a"), s.node("b")
				want := 7
				s.outcome["a"] = firstboot.Waiting
				if name == "key" {
					want = 1
					a.file.Signers = filepath.Join(t.TempDir(), "signers")
					keys, err := os.ReadFile(s.keys)
					must(t, err)
					must(t, os.WriteFile(a.file.Signers, keys, 0o600))
					lease := kube.Lease{Name: slot, Note: "c", Holder: "c", Duration: 10 * time.Minute,
						Renewed: time.Now()}
					_, err = s.cluster.TakeLease(t.Context(), lease, "")
					must(t, err)
					time.AfterFunc(5*time.Minute, func() {
						must(t, os.WriteFile(a.file.Signers, []byte(line("ops", s.other)), 0o600))
					})
				}
				if code := a.round(t.Context()); code != want {
					t.Errorf("code %d: %q", code, a.said)
				}
				began := time.Now()
				if code := b.round(t.Context()); code != 0 || time.Since(began) > 5*time.Minute {
					t.Errorf("code %d after %v: %q", code, time.Since(began), b.said)
				}
				b.want("True", "Applied", "release 1", 1, "first")
			})
		})
	}
}
