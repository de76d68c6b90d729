package holder

import (
	"os"
	"testing"
)

// TestFormerPodIsGone: the next pod of an index does not wait for the Lease of the former, whose name and process
// number it has, too. Pods of other indexes and other Jobs, and runs elsewhere, may be at work.
func TestFormerPodIsGone(t *testing.T) {
	in := func(uid, index string) {
		t.Setenv("NODEJOIN_FLEET_JOB_UID", uid)
		t.Setenv("JOB_COMPLETION_INDEX", index)
	}
	in("a", "3")
	former := New("apply")
	if former.Pod != "a/3" || former.PID != os.Getpid() {
		t.Errorf("%+v", former)
	}
	for _, c := range []struct {
		uid, index string
		gone       bool
	}{{"a", "3", true}, {"a", "4", false}, {"b", "3", false}, {"", "3", false}, {"", "", false}} {
		if in(c.uid, c.index); Gone(former) != c.gone {
			t.Errorf("for a pod of the Job %q with the index %q: %v", c.uid, c.index, !c.gone)
		}
	}
	in("a", "3")
	beside := New("apply") // as a command that somebody runs in the pod sees the apply of the pod
	beside.PID = os.Getppid()
	if Gone(beside) {
		t.Error("a run of this pod that is at work is gone")
	}
	in("", "")
	if here := New("apply"); here.Pod != "" {
		t.Errorf("outside of a fleet: %+v", here)
	}
}
