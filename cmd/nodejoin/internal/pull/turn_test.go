package pull

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/steps/kube"
	"nodejoin/steps/waves"
)

// mortal is the cluster of a process that can be killed: its Leases are neither renewed nor released then.
type mortal struct {
	kube.API
	dead *atomic.Bool
}

func (m mortal) TakeLease(ctx context.Context, want kube.Lease, from string) (kube.Lease, error) {
	if m.dead.Load() {
		return kube.Lease{}, errKilled
	}
	return m.API.TakeLease(ctx, want, from)
}

func (m mortal) ReleaseLease(ctx context.Context, name, holder string) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.API.ReleaseLease(ctx, name, holder)
}

// kill makes a round of a node that is killed after a while, with its apply; out = its Node stays out of service.
func (n *node) kill(ctx context.Context, after time.Duration, out bool) {
	n.s.t.Helper()
	dead := new(atomic.Bool)
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	n.opens = func(context.Context, *File) (kube.API, error) { return mortal{n.s.cluster, dead}, nil }
	n.applies = func(ctx context.Context, _ []string) (int, firstboot.Outcome) {
		must(n.s.t, n.Prepare(ctx, n.plan()))
		if out {
			must(n.s.t, n.s.cluster.Cordon(ctx, n.name, "upgrade"))
		}
		<-ctx.Done()
		dead.Store(true)
		return 130, firstboot.Failed
	}
	n.dies = true
	n.round(ctx)
	n.opens, n.applies, n.dies = nil, nil, false
}

// TestFollowKilled: the slot of a node that was killed is another's when its Lease has ended, unless the Node is out
// of service. The node itself goes on at once.
func TestFollowKilled(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		a, b, c := s.node("a"), s.node("b"), s.node("c")
		a.kill(t.Context(), 10*time.Minute, false)
		began := time.Now()
		if code := b.round(t.Context()); code != 0 {
			t.Errorf("code %d: %q", code, b.said)
		}
		b.want("True", "Applied", "release 1", 1, "first")
		// The apply takes 3 minutes, the Lease holds for 2 and was renewed at most 20 seconds before the end.
		if took := time.Since(began); took < 4*time.Minute || took > 6*time.Minute {
			t.Errorf("it took %v", took)
		}
		a.kill(t.Context(), time.Minute, true)
		began = time.Now()
		if code := a.round(t.Context()); code != 0 || time.Since(began) > 4*time.Minute {
			t.Errorf("code %d after %v: %q", code, time.Since(began), a.said)
		}
		a.want("True", "Applied", "release 1", 1, "first")

		s.publish(2, "second")
		a.kill(t.Context(), time.Minute, true)
		if code := c.round(t.Context()); code != 0 {
			t.Errorf("code %d: %q", code, c.said)
		}
		const out = "release 2 waits: the rollout may have 1 Node out of service, and a is out already"
		c.want("False", "Waiting", out, 0)
		if code := a.round(t.Context()) + c.round(t.Context()); code != 0 {
			t.Errorf("code %d: %q", code, c.said)
		}
		c.want("True", "Applied", "release 2", 2, "second")
	})
}

// TestFollowFailures: as many nodes may fail as the rollout allows; the next release counts its own failures. A node
// that works again does not count.
func TestFollowFailures(t *testing.T) {
	s := newSite(t)
	s.rollout.MaxFailures = 2
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		a, b, c, d := s.node("a"), s.node("b"), s.node("c"), s.node("d")
		s.outcome["a"], s.outcome["b"] = firstboot.Failed, firstboot.Failed
		for i, n := range []*node{a, c, b} {
			if code, want := n.round(t.Context()), []int{1, 0, 1}[i]; code != want {
				t.Errorf("%s: code %d: %q", n.name, code, n.said)
			}
		}
		c.want("True", "Applied", "release 1", 1, "first")
		if code := d.round(t.Context()); code != 0 {
			t.Errorf("code %d", code)
		}
		d.want("False", "Waiting", "release 1 waits: the rollout stopped after 2 failures (a, b)", 0)
		s.outcome["b"] = firstboot.Finished
		if code := b.round(t.Context()) + d.round(t.Context()); code != 0 {
			t.Errorf("code %d: %q", code, d.said)
		}
		d.want("True", "Applied", "release 1", 1, "first")
		s.outcome["b"] = firstboot.Failed
		s.publish(2, "second")
		if code := b.round(t.Context()) + d.round(t.Context()); code != 1 {
			t.Errorf("code %d: %q", code, d.said)
		}
		d.want("True", "Applied", "release 2", 2, "first", "second")
	})
}

// TestFollowFailTogether: nodes that failed at the same time may all try again; the others wait for them.
func TestFollowFailTogether(t *testing.T) {
	s := newSite(t)
	s.rollout.MaxUnavailable, s.rollout.MaxFailures = 2, 1
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		a, b, c := s.node("a"), s.node("b"), s.node("c")
		s.outcome["a"], s.outcome["b"] = firstboot.Failed, firstboot.Failed
		done := make(chan int)
		for _, n := range []*node{a, b} {
			go func() { done <- n.round(t.Context()) }()
		}
		if code := <-done + <-done; code != 2 {
			t.Errorf("%d nodes failed: %q %q", code, a.said, b.said)
		}
		s.outcome["a"], s.outcome["b"] = firstboot.Finished, firstboot.Finished
		c.round(t.Context())
		c.want("False", "Waiting", "release 1 waits: the rollout stopped after 2 failures (a, b)", 0)
		for _, n := range []*node{a, b, c} {
			if code := n.round(t.Context()); code != 0 {
				t.Errorf("%s: code %d: %q", n.name, code, n.said)
			}
		}
		a.want("True", "Applied", "release 1", 1, "first", "first")
		b.want("True", "Applied", "release 1", 1, "first", "first")
		c.want("True", "Applied", "release 1", 1, "first")
	})
}

// TestFollowWaves: the waves of the rollout hold for nodes that follow the plan, too.
func TestFollowWaves(t *testing.T) {
	s := newSite(t)
	s.rollout.MaxUnavailable = 3
	s.rollout.Limits = waves.Limits{Sizes: []int{1, 3}, Pause: 20 * time.Minute}
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.publish(1, "first")
		began := time.Now()
		done := make(chan time.Duration)
		for _, name := range []string{"a", "b", "c", "d"} {
			n := s.node(name)
			go func() {
				if code := n.round(t.Context()); code != 0 {
					t.Errorf("%s: code %d: %q", name, code, n.said)
				}
				n.want("True", "Applied", "release 1", 1, "first")
				done <- time.Since(began)
			}()
		}
		for i := range 4 {
			took := <-done
			if early := took < 23*time.Minute; early != (i == 0) || took > 27*time.Minute {
				t.Errorf("node %d is done after %v", i, took)
			}
		}
	})
}

// faulty is a cluster that does not answer some requests about Leases.
type faulty struct {
	kube.API
	list bool
	take string // part of the names of Leases; "" = it takes all
	// release is the same of those that it does not release.
	release string
}

var errNoAnswer = errors.New("no answer")

func (f faulty) Leases(ctx context.Context, prefix string) ([]kube.Lease, error) {
	if f.list {
		return nil, errNoAnswer
	}
	return f.API.Leases(ctx, prefix)
}

func (f faulty) TakeLease(ctx context.Context, want kube.Lease, from string) (kube.Lease, error) {
	if f.take != "" && strings.Contains(want.Name, f.take) {
		return kube.Lease{}, errNoAnswer
	}
	return f.API.TakeLease(ctx, want, from)
}

func (f faulty) ReleaseLease(ctx context.Context, name, holder string) error {
	if f.release != "" && strings.Contains(name, f.release) {
		return errNoAnswer
	}
	return f.API.ReleaseLease(ctx, name, holder)
}

// TestFollowNoSlots: a cluster that does not answer while a node waits is said.
func TestFollowNoSlots(t *testing.T) {
	for name, c := range map[string]struct {
		fault faulty
		waves []int
		want  string
	}{
		"list":  {faulty{list: true}, nil, "cannot read the slots of the rollout: no answer"},
		"take":  {faulty{take: ".slot-"}, nil, "cannot take a slot of the rollout: no answer"},
		"waves": {faulty{take: ".waves-"}, []int{1}, "cannot read how far the waves of the rollout are: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.rollout.Sizes = c.waves
			s.publish(1, "first")
			n := s.node("n")
			c.fault.API = s.cluster
			n.opens = func(context.Context, *File) (kube.API, error) { return c.fault, nil }
			if code := n.round(t.Context()); code != 4 {
				t.Errorf("code %d: %q", code, n.said)
			}
			n.want("Unknown", "NotFetched", c.want, 0)
		})
	}
}
