package waves

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestWaves: one Node, then two, then two again, with a pause between.
func TestWaves(t *testing.T) {
	l := Limits{Sizes: []int{1, 2}, Pause: time.Minute}
	now := time.Date(2026, 11, 26, 1, 0, 0, 0, time.UTC)
	var s State
	bad, broken := []string(nil), error(nil)
	begin := func(node, want string) {
		t.Helper()
		waits, why, err := s.Begin(l, node, now, func(done []string) ([]string, error) { return bad, broken })
		have := waits + why
		if err != nil {
			have = err.Error()
		}
		if have != want {
			t.Errorf("%s: %q, want %q", node, have, want)
		}
	}
	begin("a", "")
	begin("b", "wave 2 of the rollout begins after a")
	begin("a", "") // the next run goes on with it
	s.End("x", true, now)
	begin("b", "wave 2 of the rollout begins after a")
	s.End("a", false, now)
	begin("b", "wave 2 of the rollout begins at 01:01:00Z, 1m0s after wave 1")
	begin("a", "") // again
	s.End("a", false, now)
	now = now.Add(time.Minute)
	bad = []string{"a"}
	begin("b", "the rollout stopped after wave 1: out of service: a")
	bad, broken = nil, errors.New("no answer")
	begin("b", "no answer")
	broken = nil
	begin("b", "")
	begin("c", "")
	s.GiveUp("c")
	begin("d", "")
	begin("e", "wave 3 of the rollout begins after b, d")
	s.End("b", true, now)
	begin("e", "wave 3 of the rollout begins after d")
	s.End("d", false, now)
	now = now.Add(time.Hour)
	begin("e", "")
	begin("f", "")
	begin("g", "wave 4 of the rollout begins after e, f")
	want := "{Wave:2 Open:[e f] Done:[] Failed:[] Ended:0001-01-01 00:00:00 +0000 UTC}"
	if have := fmt.Sprintf("%+v", s); have != want {
		t.Errorf("%+v, want %s", s, want)
	}
	l = Limits{}
	begin("g", "") // no waves
}
