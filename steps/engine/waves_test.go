package engine_test

import (
	"fmt"
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

// waveLog notes, of several runs at once, when hosts begin and end.
type waveLog struct {
	mu           sync.Mutex
	nodes        []string // in the order in which they begin
	begins, ends map[string]time.Time
	waits        []string
}

func (l *waveLog) hear(e event.Event) {
	h, ok := e.(event.HostState)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begins == nil {
		l.begins, l.ends = map[string]time.Time{}, map[string]time.Time{}
	}
	switch h.State {
	case "applying":
		if l.begins[h.Host].IsZero() {
			l.begins[h.Host], l.nodes = time.Now(), append(l.nodes, h.Host)
		}
	case "done":
		l.ends[h.Host] = time.Now()
	case "waiting":
		l.waits = append(l.waits, h.Detail)
	}
}

// wantWaves: no host of a wave has begun before all of the one before have ended, and the pause is over.
func (l *waveLog) wantWaves(t *testing.T, sizes []int, pause time.Duration) {
	t.Helper()
	from := 0
	for wave, size := range sizes {
		for i := from; i < from+size; i++ {
			for _, before := range l.nodes[:from] {
				if waited := l.begins[l.nodes[i]].Sub(l.ends[before]); waited < pause {
					t.Errorf("%s of wave %d begins %s after the end of %s", l.nodes[i], wave+1, waited, before)
				}
			}
		}
		from += size
	}
	if from != len(l.nodes) || from != len(l.ends) {
		t.Errorf("%v have begun, %v have ended", l.nodes, l.ends)
	}
}

const inWaves = "\nrollout {\n  max_unavailable = 9\n  waves = [1, \"25%\", \"100%\"]\n  pause = \"1s\"\n}\n"

// TestWaves: a run changes one Node, after the pause a quarter, then all others.
func TestWaves(t *testing.T) {
	w := fleet(t, 8, inWaves)
	var l waveLog
	w.heard = l.hear
	_, sum := w.apply(-1)
	if worked, failed, held := begun(sum); len(worked) != 8 || len(failed) > 0 || held != "" {
		t.Errorf("worked on %v, failed %v, held %q", worked, failed, held)
	}
	l.wantWaves(t, []int{1, 2, 5}, time.Second)
	if !slices.ContainsFunc(l.waits, func(s string) bool { return strings.HasSuffix(s, ", 1s after wave 1") }) {
		t.Errorf("waits: %q", l.waits)
	}
}

// TestWavesStop: after a failure in the first wave there is no second, and neither is there one while a Node of the
// first is out of service.
func TestWavesStop(t *testing.T) {
	w := fleet(t, 3, inWaves)
	w.breakKubelets(nodeName(0))
	_, sum := w.apply(-1)
	if worked, failed, held := begun(sum); !slices.Equal(worked, names(1)) || !slices.Equal(failed, names(1)) ||
		!strings.Contains(held, "the rollout stopped after 1 failure") {
		t.Errorf("worked on %v, failed %v, held %q", worked, failed, held)
	}
	w = fleet(t, 3, inWaves)
	w.heard = func(e event.Event) {
		if h, ok := e.(event.HostState); ok && h.State == "waiting" && strings.Contains(h.Detail, " after wave 1") {
			if err := w.cluster().SetUnschedulable(t.Context(), nodeName(0), true); err != nil {
				t.Error(err)
			}
		}
	}
	_, sum = w.apply(-1)
	if worked, failed, held := begun(sum); !slices.Equal(worked, names(1)) || len(failed) > 0 ||
		held != "the rollout stopped after wave 1: out of service: n-00" {
		t.Errorf("worked on %v, failed %v, held %q", worked, failed, held)
	}
}

// TestWavesOfShards: the waves of runs of several shards are those of all their Nodes together, also when a run dies
// in the first wave: the others wait until the next run of its shard has done what it had begun with.
func TestWavesOfShards(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("dies=%v", dies), func(t *testing.T) {
			t.Parallel()
			w := fleet(t, 6, inWaves)
			var l waveLog
			shards := []*world{w.shardOf("1/3", nodeName(0), nodeName(1)), w.shardOf("2/3", nodeName(2), nodeName(3)),
				w.shardOf("3/3", nodeName(4), nodeName(5))}
			waited := make(chan struct{})
			if dies {
				shards[0].apply(12) // mutating calls
				shards[0].diesWith(`{"wave":0,"open":["n-00"]}`)
				lease, holder := leaseOfDemo+".shard-1-of-3", shards[0].holder.Run // it has ended
				if err := w.cluster().ReleaseLease(t.Context(), lease, holder); err != nil {
					t.Fatal(err)
				}
				shards[0] = w.shardOf("1/3", nodeName(0), nodeName(1))
				shards[0].holder.Run = "the next run of 1/3"
			} else {
				close(waited)
			}
			var once sync.Once
			run := func(s *world) []engine.HostSummary {
				s.heard = func(e event.Event) {
					l.hear(e)
					h, ok := e.(event.HostState)
					if ok && dies && h.State == "waiting" && h.Detail == "wave 2 of the rollout begins after n-00" {
						once.Do(func() { close(waited) })
					}
				}
				_, sum := s.apply(-1)
				return sum.Hosts
			}
			var wait sync.WaitGroup
			for i, s := range shards {
				wait.Go(func() {
					if i == 0 {
						select {
						case <-waited:
						case <-time.After(time.Minute):
							t.Errorf("the others have waited for %q", l.waits)
						}
					}
					for _, h := range run(s) {
						if h.Err != nil || h.Held != "" {
							t.Errorf("%s: %v %s", h.Node, h.Err, h.Held)
						}
					}
				})
			}
			wait.Wait()
			l.wantWaves(t, []int{1, 2, 3}, time.Second)
			if v := w.versions(t.Context()); v["v1.36.3"] != 6 {
				t.Errorf("versions: %v", v)
			}
		})
	}
}

// diesWith leaves the waves as a process does that is killed: it does not note the end of its Nodes.
func (w *world) diesWith(state string) {
	w.t.Helper()
	list, err := w.cluster().Leases(w.t.Context(), leaseOfDemo+".waves-")
	if err != nil || len(list) != 1 {
		w.t.Fatalf("Leases %+v, %v", list, err)
	}
	l := list[0]
	l.Note = state
	if _, err := w.cluster().TakeLease(w.t.Context(), l, ""); err != nil {
		w.t.Fatal(err)
	}
	failed := kube.Lease{Name: leaseOfDemo + ".failed-n-00", Holder: w.group}
	if err := w.cluster().ReleaseLease(w.t.Context(), failed.Name, failed.Holder); err != nil {
		w.t.Fatal(err)
	}
}

// TestWavesInterrupted: a run that is stopped in a pause leaves the others for the next apply.
func TestWavesInterrupted(t *testing.T) {
	w := fleet(t, 2, strings.Replace(inWaves, "1s", "24h", 1))
	w.heard = func(e event.Event) {
		if h, ok := e.(event.HostState); ok && h.State == "waiting" && strings.HasSuffix(h.Detail, " after wave 1") {
			w.cancel()
		}
	}
	_, sum := w.apply(-1)
	one, two := sum.Hosts[0], sum.Hosts[1]
	if one.Err != nil || steps.AsError(two.Err).Code != steps.CodeInterrupted || two.Held != "" {
		t.Errorf("%+v", sum.Hosts)
	}
}
